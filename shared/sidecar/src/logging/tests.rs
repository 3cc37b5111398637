use super::*;

fn line(format: fn(SystemTime, &Record<'_>) -> String, keys: &[(&str, kv::Value<'_>)]) -> String {
    let now = SystemTime::UNIX_EPOCH + Duration::from_micros(1_000_000_000_123_456);
    let mut record = Record::builder();
    let record = record.level(Level::Warn).file(Some("src/run.rs")).line(Some(42));
    let record = record.key_values(&keys);
    format(now, &record.args(format_args!("gone \"x\"")).build())
}

#[test]
fn text_is_klogs() {
    let text = line(klog, &[]);
    assert!(text.starts_with("W0909 01:46:40.123456 "), "{text}");
    assert!(text.ends_with(" run.rs:42] gone \"x\"\n"), "{text}");
}

#[test]
fn keys_follow_the_text_and_are_quoted_where_needed() {
    let error = "refused \"x\"\nE1121 fake";
    let keys = [
        ("name", kv::Value::from("widget-1")),
        ("error", kv::Value::from(error)),
        ("retry_in", kv::Value::from(1.5)),
        ("failures", kv::Value::from(3)),
        ("reason", kv::Value::from("")),
    ];
    let text = line(klog, &keys);
    let end = r#" name=widget-1 error="refused \"x\" E1121 fake" retry_in=1.5 failures=3"#;
    assert!(text.ends_with(&format!("{end}\n")), "{text}");
    let value: serde_json::Value = serde_json::from_str(&line(json_line, &keys)).unwrap();
    assert_eq!(value["name"], "widget-1");
    assert_eq!(value["error"], "refused \"x\" E1121 fake");
    assert_eq!(value["retry_in"], 1.5);
    assert_eq!(value["failures"], 3);
}

#[test]
fn json_is_one_object_a_line() {
    let value: serde_json::Value = serde_json::from_str(&line(json_line, &[])).unwrap();
    assert_eq!(value["msg"], "gone \"x\"");
    assert_eq!(value["level"], "warn");
    assert_eq!(value["ts"], 1_000_000_000_123.456);
}

#[test]
fn full_pipe_drops_lines_and_never_blocks() {
    let (sender, lines) = sync_channel(1);
    let mut pipe = Lines(sender);
    for _ in 0..1000 {
        assert_eq!(pipe.write(b"line\n").unwrap(), 5);
    }
    assert_eq!(lines.try_iter().count(), 1);
}
