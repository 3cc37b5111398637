use serde_json::json;

use super::*;

fn find(path: &str, object: &Value) -> Result<Value, String> {
    let path = JsonPath::parse(path)?;
    path.find(object, &mut 0).map(|found| json!(found))
}

fn sample() -> Value {
    json!({
        "a": {"b": 1, "c.d": "x", "e": [1, 2, 3, 4]},
        "list": [
            {"type": "Ready", "status": "True", "n": 1, "on": true},
            {"type": "Other", "status": "False", "n": 2.5},
            {"type": "Paren)", "status": "Unknown"},
        ],
        "null": null,
    })
}

/// Expectations are client-go's results.
#[test]
fn paths_find_what_client_go_finds() {
    for (path, found) in [
        ("", json!([sample()])),
        (".a.b", json!([1])),
        ("$.a.b", json!([1])),
        ("@.a['b']", json!([1])),
        (".a.missing.more", json!([])),
        (".a.b.c", json!([])),
        (r".a.c\.d", json!(["x"])),
        (r".a['c\.d']", json!(["x"])),
        (".a.e[0]", json!([1])),
        (".a.e[-1]", json!([4])),
        (".a.e[]", json!([1])),
        (".a.e[*]", json!([1, 2, 3, 4])),
        (".a.e[1:3]", json!([2, 3])),
        (".a.e[-2:]", json!([3, 4])),
        (".a.e[:-1]", json!([1, 2, 3])),
        (".a.e[::2]", json!([1, 3])),
        (".a.e[2:2]", json!([])),
        (".a.e[0,2]", json!([1, 3])),
        (".a['b', 'e'][0]", Value::Null),
        (".null[0]", json!([])),
        ("..b", json!([1])),
        ("..status", json!(["True", "False", "Unknown"])),
        (".list[*].n", json!([1, 2.5])),
        (r#".list[?(@.type=="Ready")].status"#, json!(["True"])),
        (r#".list[?(@.type == 'Paren)')].status"#, json!(["Unknown"])),
        (".list[?(@.type!=\"Ready\")].status", json!(["False", "Unknown"])),
        (".list[?(@.on)].type", json!(["Ready"])),
        (".list[?(@.on==true)].type", json!(["Ready"])),
        (r#".list[?("x"==@.type)].type"#, json!([])),
        (".missing[?(@.a==1)].b", json!([])),
        (".a.*", json!([1, "x", [1, 2, 3, 4]])),
    ] {
        let result = find(path, &sample());
        match found {
            Value::Null => assert!(result.is_err(), "{path} {result:?}"),
            found => assert_eq!(result, Ok(found), "{path}"),
        }
    }
}

#[test]
fn paths_are_refused_with_client_gos_words() {
    for (path, error) in [
        ("a.b", "unrecognized identifier a"),
        ("{.a}", "unrecognized character in action: U+007B '{'"),
        (".a}", "unrecognized character in action: U+007D '}'"),
        (".a[", "unterminated array"),
        (".a[x]", "invalid array index x"),
        (".a[-]", "array index - is not a number"),
        ("....a", "invalid multiple recursive descent"),
        (".a[?(@.b", "unterminated filter"),
        (".a[?(@.b)", "unclosed array expect ]"),
        (".list[?(@.n===1)]", "unrecognized filter operator ==="),
        ("'a", "unterminated quoted string"),
        ("1.2.3", "cannot parse number 1.2.3"),
        ("range", "unrecognized identifier range"),
        (".a[0]", "map[string]interface {} is not array or slice"),
        (".a[?(@.b)]", "map[string]interface {} is not array or slice and cannot be filtered"),
        (".list[3]", "array index out of bounds: index 3, length 3"),
        (".list[-4]", "array index out of bounds: index -1, length 3"),
        (".list[0:9]", "array index out of bounds: index 8, length 3"),
        (".list[2:1]", "starting index 2 is greater than ending index 1"),
        (".list[::0]", "step must be > 0"),
        (".list[?(@.n<1)]", "incompatible types for comparison"),
        (".list[?(@.on<true)]", "invalid type for comparison"),
        (".list[?(@.* == 1)]", "can only compare one element at a time"),
    ] {
        assert_eq!(find(path, &sample()), Err(error.to_owned()), "{path}");
    }
    assert!(JsonPath::parse(&".a".repeat(MAX_LENGTH)).is_err());
}

#[test]
fn search_that_multiplies_ends() {
    let nested = (0..40).fold(json!(0), |below, _| json!({"a": below}));
    let error = find(&"['a','a']".repeat(30), &nested).unwrap_err();
    assert_eq!(error, format!("the search visits more than {MAX_VISITS} values"));
}

#[test]
fn fields_are_removed_from_every_place_and_items_stay() {
    for (path, left) in [
        (".a", json!({"l": [{"a": {"a": 1}}, {"b": 2, "a": 3}]})),
        ("..a", json!({"l": [{}, {"b": 2}]})),
        (".l[?(@.b==2)].a", json!({"a": 0, "l": [{"a": {"a": 1}}, {"b": 2}]})),
        (".l[0]", sample_to_cut()),
        (".x.y", sample_to_cut()),
    ] {
        let mut object = sample_to_cut();
        JsonPath::parse(path).unwrap().remove(&mut object, &mut 0).unwrap();
        assert_eq!(object, left, "{path}");
    }
    assert!(JsonPath::parse(".a[0].b").unwrap().remove(&mut json!({"a": []}), &mut 0).is_err());
}

fn sample_to_cut() -> Value {
    json!({"a": 0, "l": [{"a": {"a": 1}}, {"b": 2, "a": 3}]})
}
