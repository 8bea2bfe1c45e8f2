//! Plain descriptive statistics. Every function is total: empty input gives `None` or 0, never a panic or NaN.

/// Quantile `q` in 0..=1 of values in ascending order, linearly interpolated between neighbours (Hyndman and Fan's type 7).
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = (position.floor() as usize).min(last);
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64))
}

/// Quantile of values in any order.
pub fn quantile_of(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, q)
}

/// Arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    match values.len() {
        0 => None,
        n => Some(values.iter().sum::<f64>() / n as f64),
    }
}

/// Sample standard deviation (divisor n − 1); 0 for fewer than two values.
pub fn stddev(values: &[f64]) -> f64 {
    match mean(values) {
        Some(mean) if values.len() > 1 => {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            (squares / (values.len() - 1) as f64).sqrt()
        }
        _ => 0.0,
    }
}

/// How many of the values, in ascending order, lie beyond 1.5 interquartile ranges from the quartiles (Tukey's fences).
pub fn tukey_outliers(sorted: &[f64]) -> usize {
    let (Some(q1), Some(q3)) = (quantile(sorted, 0.25), quantile(sorted, 0.75)) else {
        return 0;
    };
    let reach = 1.5 * (q3 - q1);
    sorted
        .iter()
        .filter(|&&value| value < q1 - reach || value > q3 + reach)
        .count()
}

/// Whether a series in order of time drifts: the medians of its first and last third differ by more than 2% and by more than
/// the larger interquartile range of the two. Shorter than 9 values, nothing can be said and the answer is no.
pub fn drifts(series: &[f64]) -> bool {
    let third = series.len() / 3;
    if third < 3 {
        return false;
    }
    let spread = |part: &[f64]| -> Option<(f64, f64)> {
        let mut sorted = part.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some((
            quantile(&sorted, 0.5)?,
            quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?,
        ))
    };
    let (Some((head, head_iqr)), Some((tail, tail_iqr))) =
        (spread(&series[..third]), spread(&series[series.len() - third..]))
    else {
        return false;
    };
    let shift = (head - tail).abs();
    shift > 0.02 * head.min(tail) && shift > head_iqr.max(tail_iqr)
}

/// Two-sided p-value of the Mann-Whitney test that two samples come from one distribution; `None` when either is empty.
///
/// Up to 40 observations together the distribution of the rank sum is counted exactly, ties included (mid-ranks, all splits of the
/// pooled sample equally likely); O(n²·(n+m)²) steps. Above that, the normal approximation with tie correction.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    let (n, m) = (a.len(), b.len());
    if n == 0 || m == 0 {
        return None;
    }
    let mut pooled: Vec<(f64, bool)> = a
        .iter()
        .map(|&value| (value, true))
        .chain(b.iter().map(|&value| (value, false)))
        .collect();
    pooled.sort_by(|x, y| x.0.total_cmp(&y.0));
    // Twice the mid-rank of each observation: whole numbers even with ties.
    let mut ranks = vec![0usize; n + m];
    let mut tie_term = 0.0;
    let mut start = 0;
    while start < n + m {
        let mut end = start + 1;
        while end < n + m && pooled[end].0 == pooled[start].0 {
            end += 1;
        }
        ranks[start..end].fill(start + 1 + end);
        let ties = (end - start) as f64;
        tie_term += ties.powi(3) - ties;
        start = end;
    }
    let observed: usize = ranks
        .iter()
        .zip(&pooled)
        .filter(|(_, (_, first))| *first)
        .map(|(rank, _)| rank)
        .sum();
    let total = (n + m) as f64;
    let centre = n as f64 * (total + 1.0);
    let distance = (observed as f64 - centre).abs();
    if n + m <= 40 {
        return Some(exact_tail(&ranks, n, centre, distance));
    }
    let variance = n as f64 * m as f64 / 12.0 * (total + 1.0 - tie_term / (total * (total - 1.0)));
    if variance <= 0.0 {
        return Some(1.0);
    }
    // Ranks are doubled, hence half the distance; half a rank less for continuity.
    let z = ((distance / 2.0 - 0.5).max(0.0)) / variance.sqrt();
    Some(erfc(z / std::f64::consts::SQRT_2).min(1.0))
}

/// Share of the subsets of size `n` whose doubled rank sum is at least `distance` from `centre`.
fn exact_tail(ranks: &[usize], n: usize, centre: f64, distance: f64) -> f64 {
    let most: usize = ranks.iter().sum();
    let width = most + 1;
    let mut counts = vec![0.0f64; (n + 1) * width];
    counts[0] = 1.0;
    for &rank in ranks {
        for size in (1..=n).rev() {
            for sum in (rank..width).rev() {
                counts[size * width + sum] += counts[(size - 1) * width + sum - rank];
            }
        }
    }
    let row = &counts[n * width..];
    let all: f64 = row.iter().sum();
    let far = |(sum, _): &(usize, &f64)| (*sum as f64 - centre).abs() >= distance - 1e-9;
    row.iter()
        .enumerate()
        .filter(far)
        .map(|(_, count)| count)
        .sum::<f64>()
        / all
}

/// Complementary error function for x ≥ 0, to about 1.2e-7 relative (Chebyshev fit of Numerical Recipes, section 6.2).
fn erfc(x: f64) -> f64 {
    const FIT: [f64; 10] = [
        -1.26551223,
        1.00002368,
        0.37409196,
        0.09678418,
        -0.18628806,
        0.27886807,
        -1.13520398,
        1.48851587,
        -0.82215223,
        0.17087277,
    ];
    let t = 1.0 / (1.0 + 0.5 * x);
    let polynomial = FIT.iter().rev().fold(0.0, |sum, factor| sum * t + factor);
    t * (-x * x + polynomial).exp()
}
