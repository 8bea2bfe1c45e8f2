//! `neocpu`: one blocked format for all convolutions, kept for as long as it flows, after NeoCPU (USENIX ATC 2019; seed,
//! section 6).
//!
//! 1. *One block.* Of the forms in which the operators with known preferences (convolutions) can write their results, the one
//!    that most of them can write is chosen for all; among equals the one that most of them prefer, then the one met first.
//! 2. Each of these operators takes its first preferred configuration of that form, else its first one of that form, else its
//!    first preferred one.
//! 3. *Flow*, forward in topological order. *Layout-oblivious* and *layout-tolerant* operators (element by element,
//!    normalisation, pooling) have a configuration that reads their first operand as it was produced, and take the one of these
//!    that reads most operands as produced. *Layout-dependent* ones (flattening, reshaping) have none and take their first, the
//!    default layout: only there, and between the operators of step 2, is anything converted.
//!
//! Constants are packed ahead of time, as there. Not reproduced: the search over blocks and loop schedules per convolution
//! by measured times, and the global dynamic program over its results, both of which read costs.

use super::Plan;
use super::view::View;

pub(super) fn blocked_flow(view: &View<'_>) -> Plan {
    let nodes = view.nodes();
    let form = common_form(view);
    let (mut anchored, mut tolerant, mut dependent) = (0, 0, 0);
    let mut chosen: Vec<usize> = Vec::with_capacity(nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        if node.choices() == 0 {
            return Plan {
                chosen: None,
                counters: Vec::new(),
                stopped: false,
            };
        }
        let in_form = |&c: &usize| form.is_some() && written_form(view, i, c) == form;
        let by_preference = node.preferred.iter().copied().chain(0..node.choices());
        let choice = by_preference
            .into_iter()
            .find(in_form)
            .or(node.preferred.first().copied());
        if let Some(choice) = choice.filter(|_| is_heavy(view, i)) {
            anchored += 1;
            chosen.push(choice);
            continue;
        }
        // Per choice, which operands are read as they were produced.
        let as_produced = |c: usize| {
            let reads = node.inputs.iter().zip(node.reads(c));
            reads.map(|(&t, &to)| {
                let producer = view.producer(t);
                let p = &nodes[producer];
                let from = p
                    .outputs
                    .iter()
                    .position(|&o| o == t)
                    .map(|k| p.writes(chosen[producer])[k]);
                from == Some(to)
            })
        };
        let best = (0..node.choices())
            .rev()
            .filter(|&c| as_produced(c).next() == Some(true))
            .max_by_key(|&c| as_produced(c).filter(|&same| same).count());
        match best {
            Some(_) => tolerant += 1,
            None if !node.inputs.is_empty() => dependent += 1,
            None => {}
        }
        chosen.push(best.unwrap_or(0));
    }
    Plan {
        chosen: Some(chosen),
        counters: vec![
            ("blocked_operators", anchored),
            ("layout_tolerant", tolerant),
            ("layout_dependent", dependent),
        ],
        stopped: false,
    }
}

/// Whether the operator is one of those that the format is chosen for: it works along a dimension and has preferences.
fn is_heavy(view: &View<'_>, node: usize) -> bool {
    !view.nodes()[node].preferred.is_empty() && !view.operator_hints(node).along.is_empty()
}

/// The form in which a choice writes its (first) result.
fn written_form<'a>(view: &View<'a>, node: usize, choice: usize) -> Option<&'a str> {
    let n = &view.nodes()[node];
    let (t, l) = (n.outputs.first()?, n.writes(choice).first()?);
    Some(&view.layout_hints(*t, *l).form)
}

/// The form, other than the plain one, that most heavy operators can write.
fn common_form<'a>(view: &View<'a>) -> Option<&'a str> {
    // Per form: how many can write it, how many prefer it.
    let mut forms: Vec<(&str, (u64, u64))> = Vec::new();
    for (i, node) in view
        .nodes()
        .iter()
        .enumerate()
        .filter(|&(i, _)| is_heavy(view, i))
    {
        let mut seen: Vec<(&str, bool)> = Vec::new();
        for c in 0..node.choices() {
            let Some(form) = written_form(view, i, c).filter(|f| !f.is_empty()) else {
                continue;
            };
            let preferred = node.preferred.contains(&c);
            match seen.iter_mut().find(|(f, _)| *f == form) {
                Some((_, p)) => *p |= preferred,
                None => seen.push((form, preferred)),
            }
        }
        for (form, preferred) in seen {
            let position = forms.iter().position(|(f, _)| *f == form).unwrap_or_else(|| {
                forms.push((form, (0, 0)));
                forms.len() - 1
            });
            forms[position].1.0 += 1;
            forms[position].1.1 += u64::from(preferred);
        }
    }
    forms
        .iter()
        .rev()
        .max_by_key(|(_, times)| *times)
        .map(|(f, _)| *f)
}
