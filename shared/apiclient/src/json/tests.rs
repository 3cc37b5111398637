use super::*;

const LIMIT: usize = 1 << 20;

fn object(text: &str, limit: usize) -> Document {
    let budget = Budget::new(limit);
    super::object(&mut reader(text.as_bytes(), &budget), &budget, false).unwrap()
}

#[test]
fn what_is_read_is_what_is_there() {
    let text = r#"{"a": [1, -2, 3.5, 1e400, true, null, "\u00e9\"", {}], "b": {"c": []}, "": 1}"#;
    let text = text.replace("1e400", "1e30");
    let expected: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(parse(text.as_bytes(), LIMIT), Some(expected));
    for bad in ["nil", "", "{} x", "[1,", "1e400"] {
        assert_eq!(parse(bad.as_bytes(), LIMIT), None, "{bad}");
    }
}

#[test]
fn a_value_costs_what_its_shape_costs() {
    let nested = |count: usize| format!("{}0{}", r#"{"":"#.repeat(count), "}".repeat(count));
    // 98 bytes a level are 14 in JSON: what is small on the wire is not always in memory.
    let list = format!("[{}0]", format!("{},", nested(100)).repeat(20));
    assert!(parse(list.as_bytes(), 2 << 20).is_some());
    assert_eq!(parse(list.as_bytes(), LIMIT), None);
    let numbers = format!("[{}0]", "0,".repeat(100_000));
    assert_eq!(parse(numbers.as_bytes(), LIMIT), None);
    let text = format!(r#"{{"a": "\"{}"}}"#, ",".repeat(LIMIT / 2));
    assert!(parse(text.as_bytes(), LIMIT).is_some());
}

#[test]
fn value_costs_what_it_was_charged() {
    let map: Vec<_> = (0..30).map(|key| format!("\"{key}\": \"some text\"")).collect();
    for text in [
        "[]",
        "{}",
        "1",
        "\"\"",
        "[1]",
        "[1, 2, 3, 4, 5, [[]], null]",
        r#"{"a": {"": "é"}}"#,
        &format!("[{{{}}}, {{}}]", map.join(",")),
    ] {
        let budget = Budget::new(LIMIT);
        let value = read(&mut reader(text.as_bytes(), &budget), Tree::any(&budget)).unwrap();
        assert_eq!(cost(&value), budget.used.get(), "{text}");
    }
}

#[test]
fn managed_fields_are_left_out_and_only_those_of_the_metadata() {
    let text = r#"{"metadata": {"name": "x", "managedFields": [{"f:a": {}}], "uid": "u"},
        "managedFields": 1, "spec": {"managedFields": 2, "metadata": {"managedFields": 3}}}"#;
    let Document::Whole(object) = object(text, LIMIT) else { panic!("too large") };
    assert_eq!(object["metadata"], serde_json::json!({"name": "x", "uid": "u"}));
    assert_eq!(
        (&object["managedFields"], &object["spec"]["managedFields"]),
        (&1.into(), &2.into())
    );
    assert_eq!(object["spec"]["metadata"]["managedFields"], 3);
}

#[test]
fn what_is_too_large_is_known_by_its_head_wherever_that_is() {
    let data = format!(r#""data": {{"a": "{}"}}"#, "x".repeat(LIMIT));
    let metadata = r#""metadata": {"labels": {"name": "no"}, "name": "x", "namespace": "ns",
        "resourceVersion": "7", "uid": "u"}"#;
    let head =
        json!({"metadata": {"namespace": "ns", "name": "x", "uid": "u", "resourceVersion": "7"}});
    for text in [format!("{{{data}, {metadata}}}"), format!("{{{metadata}, {data}}}")] {
        let Document::TooLarge(read) = object(&text, LIMIT) else { panic!("not too large") };
        assert_eq!(read, head);
    }
    let long = format!(r#"{{"metadata": {{"name": "{}"}}}}"#, "x".repeat(LIMIT));
    let Document::TooLarge(read) = object(&long, LIMIT) else { panic!("not too large") };
    assert_eq!(read["metadata"].get("name"), None);
}

#[test]
fn object_with_an_unreadable_head_is_refused() {
    for name in ["1", "null", "{}"] {
        let (text, budget) = (format!(r#"{{"metadata": {{"name": {name}}}}}"#), Budget::new(LIMIT));
        let read = super::object(&mut reader(text.as_bytes(), &budget), &budget, false);
        assert!(read.is_err(), "{name}");
    }
}
