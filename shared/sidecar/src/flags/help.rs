//! The text of `-help`.

use std::fmt::Write;

use super::{Flag, FlagKind};

/// The text of `-help`: groups in the order of the table, the flags of each sorted by name as in Go.
pub fn help(program: &str, table: &[Flag]) -> String {
    let mut groups: Vec<(&str, Vec<&Flag>)> = Vec::new();
    for flag in table.iter().filter(|flag| flag.is_listed()) {
        match groups.iter_mut().find(|(group, _)| *group == flag.group) {
            Some((_, flags)) => flags.push(flag),
            None => groups.push((flag.group, vec![flag])),
        }
    }
    let mut text = format!("Usage of {program}:\n");
    for (group, mut flags) in groups {
        flags.sort_unstable_by_key(|flag| flag.name);
        // Writing into a String cannot fail.
        let _ = writeln!(text, "\n{group}:");
        let _ = flags.into_iter().try_for_each(|flag| usage(&mut text, flag));
    }
    text
}

fn usage(text: &mut String, flag: &Flag) -> std::fmt::Result {
    let value = match flag.kind {
        FlagKind::Alias | FlagKind::Bool | FlagKind::Ignored | FlagKind::Refused => "",
        FlagKind::Duration | FlagKind::Seconds => " duration",
        FlagKind::Int | FlagKind::Port => " int",
        FlagKind::List => " strings",
        FlagKind::Pair => " string string",
        FlagKind::String => " string",
    };
    let default = match flag.default {
        "" | "false" => String::new(),
        default => format!(" (default {default})"),
    };
    writeln!(text, "  -{}{value}\n    \t{}{default}", flag.name, flag.help)
}
