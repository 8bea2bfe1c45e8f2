//! What a figure shows, as plain data, apart from how it is drawn.

use super::style::Look;

/// One axis: its label, its range and where its ticks are.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Label.
    pub label: String,
    /// Value at the axis' start.
    pub low: f64,
    /// Value at its end; above `low`.
    pub high: f64,
    /// Ticks: value and text.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis over `low..=high`, widened to whole steps of 1, 2 or 5 times a power of ten, about `steps` of them.
    pub fn linear(label: &str, low: f64, high: f64, steps: u32) -> Axis {
        let span = (high - low).max(f64::MIN_POSITIVE);
        let raw = span / f64::from(steps.max(1));
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            // A hair of slack: 100 in 5 steps is 20 a step, whatever the logarithm's rounding.
            .find(|&step| step * (1.0 + 1e-9) >= raw)
            .unwrap_or(10.0 * power);
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        let ticks = (0..=(last - first) as u32)
            .map(|index| {
                let value = (first + f64::from(index)) * step;
                (value, format!("{value:.decimals$}"))
            })
            .collect();
        Axis {
            label: label.to_owned(),
            low: first * step,
            high: last * step,
            ticks,
        }
    }

    /// The same axis ending at `high`, without the ticks beyond.
    pub fn capped(mut self, high: f64) -> Axis {
        self.high = high;
        self.ticks.retain(|(value, _)| *value <= high);
        self
    }

    /// The same axis beginning earlier by a share of its length.
    pub fn lowered(mut self, share: f64) -> Axis {
        self.low -= share * (self.high - self.low);
        self
    }

    /// A logarithmic axis over whole decades around `low..=high`, both positive. Values are given to it as logarithms to base 10.
    pub fn decades(label: &str, low: f64, high: f64) -> Axis {
        let first = low.log10().floor();
        let last = high.log10().ceil().max(first + 1.0);
        let ticks = (first as i32..=last as i32)
            .map(|exponent| {
                let text = match exponent {
                    0..=4 => format!("{}", 10i64.pow(exponent as u32)),
                    -3..=-1 => format!("{:.*}", exponent.unsigned_abs() as usize, 10f64.powi(exponent)),
                    _ => format!("1e{exponent}"),
                };
                (f64::from(exponent), text)
            })
            .collect();
        Axis {
            label: label.to_owned(),
            low: first,
            high: last,
            ticks,
        }
    }
}

/// One value over a range of the x axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Start on the x axis.
    pub from: f64,
    /// End.
    pub to: f64,
    /// Value.
    pub y: f64,
    /// Marked as not proven: its marker is hollow.
    pub hollow: bool,
}

/// One series of a line chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Text in the legend.
    pub label: String,
    /// Look.
    pub look: Look,
    /// Steps from left to right.
    pub steps: Vec<Step>,
}

/// Step curves over shares of models.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// x axis.
    pub x: Axis,
    /// y axis.
    pub y: Axis,
    /// The curves.
    pub lines: Vec<Line>,
    /// Height of a dashed guide.
    pub guide: Option<f64>,
    /// Whether steps carry markers; right for few models.
    pub markers: bool,
}

/// One bar of two stacked parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Text under the bar.
    pub name: String,
    /// Height of the lower part.
    pub exact: f64,
    /// Height of the upper part.
    pub bounded: f64,
    /// Text above the bar.
    pub text: String,
}

/// A bar chart.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// Label under the bars.
    pub x_label: String,
    /// y axis.
    pub y: Axis,
    /// Bars from left to right.
    pub bars: Vec<Bar>,
    /// Legend of the two parts, drawn when both occur.
    pub parts: (String, String),
}

/// Counts on a square grid.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatChart {
    /// Label of the x axis.
    pub x_label: String,
    /// Label of the y axis.
    pub y_label: String,
    /// Counts `[y][x]`, y upwards.
    pub counts: Vec<Vec<u64>>,
    /// Lines printed above the grid.
    pub notes: Vec<String>,
}

/// Any figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Step curves.
    Lines(LineChart),
    /// Bars.
    Bars(BarChart),
    /// A grid of counts.
    Heat(HeatChart),
}

impl Chart {
    /// Height of the figure in drawing units.
    pub fn height(&self) -> u32 {
        match self {
            Chart::Lines(_) | Chart::Bars(_) => 680,
            Chart::Heat(_) => 900,
        }
    }
}
