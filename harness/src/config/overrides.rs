//! `key=value` arguments: a dotted path into the configuration and a YAML value. `~key` removes a key.

use super::node::{Node, Place, Value, parse_argument};
use super::reader::Reader;

/// Applies the arguments in order; faults go to the reader with the argument as their place.
pub fn apply(root: &mut Node, arguments: &[String], reader: &mut Reader) {
    for argument in arguments {
        let place = Place::Argument(argument.clone());
        if let Some(path) = argument.strip_prefix('~') {
            if !remove(root, path) {
                reader.fault(&place, format!("there is no `{path}` to remove"), None);
            }
            continue;
        }
        let Some((path, text)) = argument.split_once('=') else {
            let help = Some("an override is `key=value`, `section.key=value` or `~key`".into());
            reader.fault(&place, "not an override", help);
            continue;
        };
        match parse_argument(text, argument) {
            Ok(value) => set(root, path, value, &place, reader),
            Err(e) => reader.fault(&place, format!("the value is not valid YAML: {e}"), None),
        }
    }
}

fn set(root: &mut Node, path: &str, value: Node, place: &Place, reader: &mut Reader) {
    let mut node = root;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        if matches!(node.value, Value::Null) {
            node.value = Value::Map(Vec::new());
        }
        let kind = node.value.kind();
        let Value::Map(entries) = &mut node.value else {
            reader.fault(
                place,
                format!("`{path}` goes through {kind}, which has no keys"),
                None,
            );
            return;
        };
        let index = match entries.iter().position(|(k, ..)| k == part) {
            Some(index) => index,
            None => {
                let empty = Node {
                    place: place.clone(),
                    value: Value::Null,
                };
                entries.push((part.to_owned(), place.clone(), empty));
                entries.len() - 1
            }
        };
        let slot = &mut entries[index].2;
        if parts.peek().is_none() {
            *slot = value;
            return;
        }
        node = slot;
    }
}

fn remove(root: &mut Node, path: &str) -> bool {
    let (parents, key) = path.rsplit_once('.').map_or((None, path), |(p, k)| (Some(p), k));
    let mut node = root;
    for part in parents.into_iter().flat_map(|p| p.split('.')) {
        let Value::Map(entries) = &mut node.value else {
            return false;
        };
        match entries.iter_mut().find(|(k, ..)| k == part) {
            Some((.., inner)) => node = inner,
            None => return false,
        }
    }
    let Value::Map(entries) = &mut node.value else {
        return false;
    };
    let before = entries.len();
    entries.retain(|(k, ..)| k != key);
    entries.len() < before
}
