//! The figures of the layout study, drawn from a run's records as SVG and PNG, with the data beside each as CSV.
//!
//! The same records give the same bytes: nothing in a figure depends on time, place or hash order. A figure whose data does
//! not suffice is not drawn; it is listed with the reason.

mod chart;
mod draw;
mod figures;
mod style;
mod write;

pub use chart::{Axis, Bar, BarChart, Chart, HeatChart, Line, LineChart, Step};
pub use figures::{Figure, Skipped, figures};
pub use style::{Look, Marker};
pub use write::{PlotError, Plotted, plot, png, svg};
