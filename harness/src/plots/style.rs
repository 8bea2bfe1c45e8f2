//! How figures look: sizes for a single paper column, a palette that colour-blind readers can tell apart, one embedded font.

use plotters::style::{FontStyle, RGBColor, register_font};

/// Width of a figure in drawing units. 3.36 inches, a paper's column, at 300 units an inch.
pub const WIDTH: u32 = 1008;
/// Units an inch: a PNG's resolution, and what an SVG is scaled down by.
pub const UNITS_PER_INCH: u32 = 300;
/// Text size: 8 points.
pub const TEXT: f64 = 33.0;
/// Size of small text: 7 points.
pub const SMALL: f64 = 29.0;
/// Family name in SVG files. The layout uses DejaVu Sans, whatever the viewer puts in its place.
pub const FAMILY: &str = "sans-serif";

/// Text and axes.
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Grid lines.
pub const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
/// Guides: the line at 100, the diagonal.
pub const GUIDE: RGBColor = RGBColor(0x77, 0x77, 0x77);
/// Bars.
pub const BAR: RGBColor = RGBColor(0x00, 0x72, 0xb2);
/// Bars that stand for bounds.
pub const BAR_BOUND: RGBColor = RGBColor(0x9c, 0xcb, 0xe6);

/// Shape of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle.
    Triangle,
    /// A square on its corner.
    Diamond,
}

/// Colour, dashes and marker of a series. Dashes get sparser from one series to the next, and later ones are drawn above
/// earlier ones: curves that coincide all stay visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Colour.
    pub colour: RGBColor,
    /// Length of a dash and of the gap after it; `None` for a solid line.
    pub dash: Option<(i32, i32)>,
    /// Width of the line.
    pub width: u32,
    /// Marker.
    pub marker: Marker,
}

/// Okabe and Ito's palette, in the order of the tables' columns, then of further series.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x55, 0x55, 0x55),
];

/// The look of a series. A strategy has the same colour in every figure; `position` is its place among the figure's series.
pub fn look(series: &str, position: usize) -> Look {
    let strategy = series.split('/').next().unwrap_or(series);
    let colour = match strategy {
        "local" => PALETTE[0],
        "greedy" => PALETTE[1],
        "rule-based" => PALETTE[2],
        "solver-based" => PALETTE[3],
        "maxsat" => PALETTE[4],
        "treewidth" => PALETTE[5],
        _ => PALETTE[6],
    };
    let (dash, width, marker) = match position % 4 {
        0 => (None, 7, Marker::Circle),
        1 => (Some((26, 12)), 6, Marker::Square),
        2 => (Some((13, 13)), 6, Marker::Triangle),
        _ => (Some((6, 14)), 6, Marker::Diamond),
    };
    Look {
        colour,
        dash,
        width,
        marker,
    }
}

/// Makes the embedded font known to the plotting library. Cheap, and harmless when repeated.
///
/// # Errors
/// When the embedded bytes are not a font, which would be a broken build.
pub fn register_fonts() -> Result<(), &'static str> {
    register_font(FAMILY, FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| "the embedded font is unusable")
}
