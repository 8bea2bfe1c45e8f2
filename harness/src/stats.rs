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
