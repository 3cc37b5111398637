//! The keys of log lines: one table, in `shared`, in docs/operations.md and in the sources.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use shared::logging::KEYS;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            found.push((path, text));
        }
    }
}

fn shipped() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    sources(&root().join("shared/src"), &mut found);
    for program in fs::read_dir(root().join("bins")).expect("programs").flatten() {
        sources(&program.path().join("src"), &mut found);
    }
    found
}

/// The arguments of a macro call without its texts, up to the semicolon before the message or to the end.
struct Arguments {
    pairs: String,
    end_with_message: bool,
}

fn arguments(call: &str) -> Arguments {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let mut pairs = String::new();
    for c in call.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            ';' | ')' if depth == 0 => return Arguments { pairs, end_with_message: c == ';' },
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => pairs.push(c),
            _ => {}
        }
    }
    Arguments { pairs, end_with_message: false }
}

/// The key of `name = value`, `name:% = value` or, in a macro of `log`, `name` alone.
fn key(pair: &str, alone: bool) -> Option<String> {
    let (name, value) = match pair.split_once('=') {
        Some(parts) => parts,
        None if alone => (pair, ""),
        None => return None,
    };
    let name = name.split(':').next().unwrap_or(name).trim();
    let is_word = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    (is_word && !value.starts_with('=')).then(|| name.to_owned())
}

/// The keys of the log lines of a source. Our own macros for such lines are called `log_` and something; of those of
/// `log`, what follows a text are arguments of that text.
fn keys(source: &str) -> BTreeSet<String> {
    let calls = source.split("log").skip(1).filter_map(|rest| {
        let (name, call) = rest.split_once("!(")?;
        // `log::log!(` is split before its exclamation mark; its level comes first, and is no key.
        let levelled = name.is_empty();
        let of_log = levelled
            || name.strip_prefix("::").is_some_and(|it| it.starts_with('$') || it.len() < 6);
        let ours = name.starts_with('_') && name.len() < 12;
        let arguments = arguments(call);
        let pairs = arguments.pairs.split(',').skip(usize::from(levelled));
        let found: Vec<_> = pairs.filter_map(|pair| key(pair, of_log)).collect();
        (ours || of_log && arguments.end_with_message).then_some(found)
    });
    calls.flatten().chain(literals(source)).collect()
}

/// The keys of `("name", Value::from…)`, as such macros have them.
fn literals(source: &str) -> impl Iterator<Item = String> {
    let pairs = source.split("Value::from").filter_map(|before| {
        let name = before.strip_suffix("kv::").unwrap_or(before).strip_suffix("\", ")?;
        Some(name.rsplit('"').next()?.to_owned())
    });
    pairs.collect::<Vec<_>>().into_iter()
}

#[test]
fn keys_are_found_in_sources() {
    let source = r#"
        log::info!(version = env!("VERSION"), flags:% = given(1, 2); "x = {y}");
        log::warn!("no = keys; {}", a == b);
        log::log!(level, failures; "d");
        log::warn!(silence; "e");
        log_object!(Level::Debug, target, error:% = error; "b");
        log_pair!(Level::Info, self, "c", action = words(1), target = key);
        let keys = [("state", kv::Value::from(state)), (cause, Value::from(reason))];
        log::$level!(remote:% = $pair.name, $($pairs)*; $($text)+)
    "#;
    assert!(
        keys(source).iter().eq(&[
            "action", "error", "failures", "flags", "remote", "silence", "state", "target",
            "version"
        ]),
        "{:?}",
        keys(source)
    );
}

#[test]
fn the_table_names_the_keys_of_all_log_lines_and_no_other() {
    let sources = shipped();
    let mut used = BTreeSet::new();
    for (path, source) in &sources {
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        for key in keys(source) {
            assert!(KEYS.iter().any(|(known, _)| *known == &*key), "{key} in {}", path.display());
            used.insert(key);
        }
    }
    let unused: Vec<_> = KEYS.iter().filter(|(key, _)| !used.contains(*key)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn the_page_has_the_table() {
    let page = fs::read_to_string(root().join("docs/operations.md")).expect("docs/operations.md");
    let rows: String = KEYS.iter().map(|(key, what)| format!("| `{key}` | {what} |\n")).collect();
    assert!(page.contains(&rows), "docs/operations.md should have these rows:\n{rows}");
}
