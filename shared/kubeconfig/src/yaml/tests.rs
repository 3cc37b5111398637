use serde_json::json;

use super::*;

fn read(text: &str) -> Result<Value, String> {
    parse(text.as_bytes())
}

#[test]
fn values_are_those_of_the_core_schema() {
    let text = "a: [1, -2, 0x1F, 0o17, 1.5, 1e3, '1', \"x\\n\", ~, , yes, 007, .inf, 1_0]\n\
        b: {true: True, ? c : d}\n3: |\n  x\n  y\nnull: ''\n";
    let text = text.replace("~, ,", "~,");
    let expected = json!({
        "a": [1, -2, "0x1F", "0o17", 1.5, 1000.0, "1", "x\n", null, "yes", "007", ".inf", "1_0"],
        "b": {"true": true, "c": "d"},
        "3": "x\ny\n",
        "null": "",
    });
    assert_eq!(read(&text), Ok(expected));
    for nothing in ["", "\n", "# x\n", "---\n", "--- ~\n...\n"] {
        assert_eq!(read(nothing), Ok(Value::Null), "{nothing:?}");
    }
}

#[test]
fn json_is_yaml_too() {
    for text in [
        "{\n\t\"a\": [\n\t\t1,\n\t\t{\"b\":\"c\"}\n\t]\n}\n",
        r#"{"a": "\ud83d\ude00 x\/y\b\f\n\r\t\u00e9\"\\", "b": "  x  ", "": ""}"#,
        "{\"a\"\n:\n[1E5,-0.5,null,true],\"b\":{\"c\":[],\"d\":{}}}",
    ] {
        assert_eq!(read(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }
}

#[test]
fn what_is_not_understood_is_refused() {
    assert_eq!(read("a: ["), Err("is not YAML: line 1, column 4".into()));
    assert!(read("x: [*b]").unwrap_err().starts_with("is not YAML: line 1"));
    for text in [
        "a: 1\n---\nb: 2\n",
        "a: !t x",
        "a: !!str 1",
        "? [a]\n: b",
        "x: &a 1",
        "%YAML 1.2\n---\na: 1\n",
    ] {
        assert_eq!(read(text), Err(UNUSUAL.into()), "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(read(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(read(&nested(MAX_DEPTH + 1)), Err(UNUSUAL.into()));
}

/// A parser without limits would take hours or all memory.
#[test]
fn costly_texts_are_refused() {
    let laughs: String = (1..10)
        .map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(",")))
        .collect();
    let indented: String = (0..1400).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
    let quadratic = format!("a: &a {}\nb: [{}]\n", "x".repeat(400_000), "*a,".repeat(100_000));
    let mut texts = vec![format!("a0: &a0 lol\n{laughs}"), indented, quadratic];
    for part in
        ["{a: ", "[", "{\"}\": ", "- ", "? ", "- a\n", "[[],", "- &a a\n", "a:\n", "?\n", "%a\n"]
    {
        texts.push(part.repeat((1 << 20) / part.len()));
    }
    texts.push(format!("[{}", "a,".repeat(1 << 19)));
    for text in &texts {
        assert!(read(text).is_err(), "{}", &text[..20]);
    }
}

#[test]
fn what_is_quoted_is_read_again() {
    for text in
        ["", "1", "true", "a: b", "- a", "a#b", "é", "a\nb", " a", "a:", "https://h:1/p", "aGk="]
    {
        assert_eq!(read(&quoted(text)), Ok(text.into()));
    }
}

/// Go reads YAML 1.1, which takes more words for other values.
#[test]
fn what_an_older_reader_takes_for_something_else_is_quoted() {
    for text in ["no", "No", "ON", "y", "Null", "~", "010", "1_000", "0b11", "1:30", "2001-01-01"] {
        assert_eq!(quoted(text), format!("\"{text}\""));
    }
    for text in ["north", "/a/b", "https://h:6443", "yes-cluster", "on a day"] {
        assert_eq!(quoted(text), text);
    }
}
