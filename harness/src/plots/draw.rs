//! Drawing charts with plotters' primitives. Axes and legends are laid out here, so that nothing overlaps the data.

use super::chart::{Axis, BarChart, Chart, HeatChart, Line, LineChart};
use super::style::{self, GRID, GUIDE, INK, Look, Marker, SMALL, TEXT};
use plotters::coord::Shift;
use plotters::element::{Circle, DashedPathElement, PathElement, Polygon, Rectangle};
use plotters::prelude::{DrawingArea, DrawingAreaErrorKind, DrawingBackend, IntoFont, RGBColor, WHITE};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, ShapeStyle, TextStyle};

type Area<DB> = DrawingArea<DB, Shift>;
type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Draws a chart over the whole area.
///
/// # Errors
/// The backend's.
pub fn draw<DB: DrawingBackend>(area: &Area<DB>, chart: &Chart) -> Drawn<DB> {
    area.fill(&WHITE)?;
    match chart {
        Chart::Lines(chart) => lines(area, chart),
        Chart::Bars(chart) => bars(area, chart),
        Chart::Heat(chart) => heat(area, chart),
    }
}

/// The rectangle of the data, in the area's units.
#[derive(Clone, Copy)]
struct Frame {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

impl Frame {
    fn x(&self, axis: &Axis, value: f64) -> i32 {
        let share = (value - axis.low) / (axis.high - axis.low);
        self.left + (share * f64::from(self.right - self.left)).round() as i32
    }

    fn y(&self, axis: &Axis, value: f64) -> i32 {
        let share = (value - axis.low) / (axis.high - axis.low);
        self.bottom - (share * f64::from(self.bottom - self.top)).round() as i32
    }
}

fn text_style(size: f64, colour: RGBColor, h: HPos, v: VPos) -> TextStyle<'static> {
    let font = (style::FAMILY, size).into_font();
    TextStyle {
        font,
        color: colour.to_backend_color(),
        pos: Pos::new(h, v),
    }
}

fn text_width<DB: DrawingBackend>(
    area: &Area<DB>,
    text: &str,
    size: f64,
) -> Result<i32, DrawingAreaErrorKind<DB::ErrorType>> {
    let style = text_style(size, INK, HPos::Left, VPos::Top);
    Ok(area.estimate_text_size(text, &style)?.0 as i32)
}

fn stroke(colour: RGBColor, width: u32) -> ShapeStyle {
    ShapeStyle {
        color: colour.to_rgba(),
        filled: false,
        stroke_width: width,
    }
}

fn solid(colour: RGBColor) -> ShapeStyle {
    ShapeStyle {
        color: colour.to_rgba(),
        filled: true,
        stroke_width: 0,
    }
}

fn lines<DB: DrawingBackend>(area: &Area<DB>, chart: &LineChart) -> Drawn<DB> {
    let entries: Vec<(&str, Look)> = chart
        .lines
        .iter()
        .map(|line| (line.label.as_str(), line.look))
        .collect();
    let top = line_legend(area, &entries, chart.markers)?;
    let frame = axes(area, Some(&chart.x), &chart.y, top)?;
    x_label(area, &frame, &chart.x.label)?;
    if let Some(guide) = chart.guide {
        let y = frame.y(&chart.y, guide);
        dashed(
            area,
            vec![(frame.left, y), (frame.right, y)],
            (14, 10),
            stroke(GUIDE, 3),
        )?;
    }
    for line in &chart.lines {
        curve(area, &frame, chart, line)?;
    }
    if chart.markers {
        for (position, line) in chart.lines.iter().enumerate() {
            for step in &line.steps {
                // Each series has its own place within a step, so that equal values stay apart.
                let share = (position + 1) as f64 / (chart.lines.len() + 1) as f64;
                let x = frame.x(&chart.x, step.from + share * (step.to - step.from));
                marker(area, (x, frame.y(&chart.y, step.y)), line.look, step.hollow)?;
            }
        }
    }
    Ok(())
}

/// The polyline through a series' steps.
fn curve<DB: DrawingBackend>(area: &Area<DB>, frame: &Frame, chart: &LineChart, line: &Line) -> Drawn<DB> {
    let mut points: Vec<(i32, i32)> = Vec::with_capacity(2 * line.steps.len());
    for step in &line.steps {
        let y = frame.y(&chart.y, step.y);
        for x in [step.from, step.to] {
            let point = (frame.x(&chart.x, x), y);
            if points.last() != Some(&point) {
                points.push(point);
            }
        }
    }
    if points.len() < 2 {
        return Ok(());
    }
    path(area, points, line.look)
}

fn path<DB: DrawingBackend>(area: &Area<DB>, points: Vec<(i32, i32)>, look: Look) -> Drawn<DB> {
    let style = stroke(look.colour, look.width);
    match look.dash {
        None => area.draw(&PathElement::new(points, style)),
        Some(dash) => dashed(area, points, dash, style),
    }
}

fn dashed<DB: DrawingBackend>(
    area: &Area<DB>,
    points: Vec<(i32, i32)>,
    dash: (i32, i32),
    style: ShapeStyle,
) -> Drawn<DB> {
    area.draw(&DashedPathElement::new(points, dash.0, dash.1, style))
}

fn marker<DB: DrawingBackend>(area: &Area<DB>, at: (i32, i32), look: Look, hollow: bool) -> Drawn<DB> {
    let (x, y) = at;
    let fill = if hollow { WHITE } else { look.colour };
    let corners = match look.marker {
        Marker::Circle => {
            area.draw(&Circle::new(at, 11, solid(look.colour)))?;
            if hollow {
                area.draw(&Circle::new(at, 7, solid(WHITE)))?;
            }
            return Ok(());
        }
        Marker::Square => vec![
            (x - 10, y - 10),
            (x + 10, y - 10),
            (x + 10, y + 10),
            (x - 10, y + 10),
        ],
        Marker::Triangle => vec![(x, y - 13), (x + 12, y + 9), (x - 12, y + 9)],
        Marker::Diamond => vec![(x, y - 14), (x + 14, y), (x, y + 14), (x - 14, y)],
    };
    area.draw(&Polygon::new(corners.clone(), solid(fill)))?;
    let outline = corners
        .iter()
        .copied()
        .chain(corners.first().copied())
        .collect::<Vec<_>>();
    area.draw(&PathElement::new(outline, stroke(look.colour, 4)))
}

/// Draws the legend in rows at the top and returns the height it took.
fn line_legend<DB: DrawingBackend>(
    area: &Area<DB>,
    entries: &[(&str, Look)],
    markers: bool,
) -> Result<i32, DrawingAreaErrorKind<DB::ErrorType>> {
    const SAMPLE: i32 = 84;
    const ROW: i32 = 44;
    let right = area.dim_in_pixel().0 as i32 - 12;
    let (mut x, mut y) = (12, 28);
    for (label, look) in entries {
        let width = SAMPLE + 12 + text_width(area, label, TEXT)?;
        if x > 12 && x + width > right {
            (x, y) = (12, y + ROW);
        }
        path(area, vec![(x, y), (x + SAMPLE, y)], *look)?;
        if markers {
            marker(area, (x + SAMPLE / 2, y), *look, false)?;
        }
        area.draw_text(
            label,
            &text_style(TEXT, INK, HPos::Left, VPos::Center),
            (x + SAMPLE + 12, y),
        )?;
        x += width + 32;
    }
    Ok(y + ROW / 2)
}

/// Draws both axes with grid and tick labels, and returns the frame between them. Without `x`, only its line is drawn.
fn axes<DB: DrawingBackend>(
    area: &Area<DB>,
    x: Option<&Axis>,
    y: &Axis,
    top: i32,
) -> Result<Frame, DrawingAreaErrorKind<DB::ErrorType>> {
    let (width, height) = area.dim_in_pixel();
    let mut tick_width = 0;
    for (_, text) in &y.ticks {
        tick_width = tick_width.max(text_width(area, text, SMALL)?);
    }
    let frame = Frame {
        left: 68 + tick_width + 14,
        top: top + 14,
        right: width as i32 - 30,
        bottom: height as i32 - 100,
    };
    for (value, text) in &y.ticks {
        let at = frame.y(y, *value);
        area.draw(&PathElement::new(
            vec![(frame.left, at), (frame.right, at)],
            stroke(GRID, 2),
        ))?;
        let style = text_style(SMALL, INK, HPos::Right, VPos::Center);
        area.draw_text(text, &style, (frame.left - 12, at + 5))?;
    }
    for (value, text) in x.map(|axis| axis.ticks.as_slice()).unwrap_or_default() {
        let Some(axis) = x else { break };
        let at = frame.x(axis, *value);
        area.draw(&PathElement::new(
            vec![(at, frame.bottom), (at, frame.bottom + 8)],
            stroke(INK, 3),
        ))?;
        area.draw_text(
            text,
            &text_style(SMALL, INK, HPos::Center, VPos::Top),
            (at, frame.bottom + 14),
        )?;
    }
    let corner = vec![
        (frame.left, frame.top),
        (frame.left, frame.bottom),
        (frame.right, frame.bottom),
    ];
    area.draw(&PathElement::new(corner, stroke(INK, 3)))?;
    y_label(area, &frame, &y.label)?;
    Ok(frame)
}

fn x_label<DB: DrawingBackend>(area: &Area<DB>, frame: &Frame, label: &str) -> Drawn<DB> {
    let height = area.dim_in_pixel().1 as i32;
    let middle = (frame.left + frame.right) / 2;
    area.draw_text(
        label,
        &text_style(TEXT, INK, HPos::Center, VPos::Bottom),
        (middle, height - 8),
    )
}

fn y_label<DB: DrawingBackend>(area: &Area<DB>, frame: &Frame, label: &str) -> Drawn<DB> {
    let style = TextStyle::from(
        (style::FAMILY, TEXT)
            .into_font()
            .transform(FontTransform::Rotate270),
    )
    .color(&INK)
    .pos(Pos::new(HPos::Center, VPos::Top));
    area.draw_text(label, &style, (12, (frame.top + frame.bottom) / 2))
}

fn bars<DB: DrawingBackend>(area: &Area<DB>, chart: &BarChart) -> Drawn<DB> {
    let both = chart.bars.iter().any(|bar| bar.exact > 0.0) && chart.bars.iter().any(|bar| bar.bounded > 0.0);
    let mut top = 40;
    if both {
        let mut x = 12;
        for (label, colour) in [(&chart.parts.0, style::BAR), (&chart.parts.1, style::BAR_BOUND)] {
            area.draw(&Rectangle::new([(x, 14), (x + 40, 42)], solid(colour)))?;
            area.draw_text(
                label,
                &text_style(TEXT, INK, HPos::Left, VPos::Center),
                (x + 52, 28),
            )?;
            x += 52 + text_width(area, label, TEXT)? + 36;
        }
        top = 84;
    }
    let frame = axes(area, None, &chart.y, top)?;
    x_label(area, &frame, &chart.x_label)?;
    let count = chart.bars.len().max(1) as i32;
    let slot = (frame.right - frame.left) / count;
    let half = (slot * 36 / 100).clamp(1, 60);
    let mut widest = 1;
    for bar in &chart.bars {
        widest = widest
            .max(text_width(area, &bar.text, SMALL)?)
            .max(text_width(area, &bar.name, SMALL)?);
    }
    // With many bars, texts would run into each other: then only every so many-th bar has its name and none its value.
    let every = (widest + 8) / slot.max(1) + 1;
    for (index, bar) in chart.bars.iter().enumerate() {
        let middle = frame.left + slot * index as i32 + slot / 2;
        let (exact, whole) = (
            frame.y(&chart.y, bar.exact),
            frame.y(&chart.y, bar.exact + bar.bounded),
        );
        if exact < frame.bottom {
            area.draw(&Rectangle::new(
                [(middle - half, exact), (middle + half, frame.bottom)],
                solid(style::BAR),
            ))?;
        }
        if whole < exact {
            area.draw(&Rectangle::new(
                [(middle - half, whole), (middle + half, exact)],
                solid(style::BAR_BOUND),
            ))?;
        }
        if every == 1 && whole < frame.bottom {
            area.draw_text(
                &bar.text,
                &text_style(SMALL, INK, HPos::Center, VPos::Bottom),
                (middle, whole - 6),
            )?;
        }
        if index as i32 % every == 0 {
            let style = text_style(SMALL, INK, HPos::Center, VPos::Top);
            area.draw_text(&bar.name, &style, (middle, frame.bottom + 14))?;
        }
    }
    Ok(())
}

fn heat<DB: DrawingBackend>(area: &Area<DB>, chart: &HeatChart) -> Drawn<DB> {
    let (width, height) = area.dim_in_pixel();
    let mut top = 16;
    for note in &chart.notes {
        let style = text_style(TEXT, INK, HPos::Center, VPos::Top);
        area.draw_text(note, &style, (width as i32 / 2, top))?;
        top += 42;
    }
    let side = (height as i32 - 104 - top - 12).min(width as i32 - 120);
    let left = (width as i32 - side) / 2 + 20;
    let frame = Frame {
        left,
        top: top + 12,
        right: left + side,
        bottom: top + 12 + side,
    };
    let bins = chart.counts.len().max(1) as i32;
    let most = chart.counts.iter().flatten().copied().max().unwrap_or(0).max(1);
    let total: u64 = chart.counts.iter().flatten().sum();
    for (row, counts) in chart.counts.iter().enumerate() {
        for (column, &count) in counts.iter().enumerate() {
            let (x, y) = (column as i32, bins - 1 - row as i32);
            let from = (frame.left + side * x / bins, frame.top + side * y / bins);
            let to = (
                frame.left + side * (x + 1) / bins,
                frame.top + side * (y + 1) / bins,
            );
            let shade = count as f64 / most as f64;
            area.draw(&Rectangle::new([from, to], solid(shade_of(shade))))?;
            area.draw(&Rectangle::new([from, to], stroke(GRID, 2)))?;
        }
    }
    let diagonal = vec![(frame.left, frame.bottom), (frame.right, frame.top)];
    dashed(area, diagonal, (14, 10), stroke(GUIDE, 3))?;
    for (row, counts) in chart.counts.iter().enumerate() {
        for (column, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (x, y) = (column as i32, bins - 1 - row as i32);
            let ink = if count as f64 / most as f64 > 0.5 {
                WHITE
            } else {
                INK
            };
            let share = format!("{:.0}%", 100.0 * count as f64 / total as f64);
            // In the upper left of its square, clear of the diagonal.
            let at = (
                frame.left + side * (10 * x + 4) / (10 * bins),
                frame.top + side * (10 * y + 2) / (10 * bins),
            );
            area.draw_text(&share, &text_style(SMALL, ink, HPos::Center, VPos::Center), at)?;
        }
    }
    let edge = [(frame.left, frame.top), (frame.right, frame.bottom)];
    area.draw(&Rectangle::new(edge, stroke(INK, 3)))?;
    for (text, h, x) in [("Min", HPos::Left, frame.left), ("Max", HPos::Right, frame.right)] {
        area.draw_text(
            text,
            &text_style(SMALL, INK, h, VPos::Top),
            (x, frame.bottom + 10),
        )?;
    }
    for (text, v, y) in [("Max", VPos::Top, frame.top), ("Min", VPos::Bottom, frame.bottom)] {
        area.draw_text(
            text,
            &text_style(SMALL, INK, HPos::Right, v),
            (frame.left - 12, y),
        )?;
    }
    let style = TextStyle::from(
        (style::FAMILY, TEXT)
            .into_font()
            .transform(FontTransform::Rotate270),
    )
    .color(&INK)
    .pos(Pos::new(HPos::Center, VPos::Top));
    area.draw_text(
        &chart.y_label,
        &style,
        (frame.left - 112, (frame.top + frame.bottom) / 2),
    )?;
    let style = text_style(TEXT, INK, HPos::Center, VPos::Bottom);
    area.draw_text(
        &chart.x_label,
        &style,
        ((frame.left + frame.right) / 2, height as i32 - 8),
    )
}

/// From white to dark blue, darker in equal steps: readable without colour.
fn shade_of(share: f64) -> RGBColor {
    let mix = |from: f64, to: f64| (from + (to - from) * share.clamp(0.0, 1.0)).round() as u8;
    RGBColor(mix(255.0, 8.0), mix(255.0, 69.0), mix(255.0, 148.0))
}
