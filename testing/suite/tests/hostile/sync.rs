//! remote-sync and a hub whose users create objects of any shape and number.

use serde_json::{Value, json};
use suite::{
    faults::answer,
    sidecar::Sidecar,
    stays,
    sync::{Place, WIDGETS},
    within,
};

use crate::{
    shapes,
    subjects::{Remote, about},
};

/// A widget of the hub with this content.
fn widget(subject: &Remote, name: &str, content: &Value) -> Place {
    let source = subject.source(name);
    subject.hub().put(json!({
        "apiVersion": WIDGETS.resource.api_version(), "kind": "Widget",
        "metadata": {"name": source.name, "namespace": source.namespace},
        "spec": {"size": 2, "x": content},
    }));
    source
}

fn state(sidecar: &Sidecar) -> Value {
    serde_json::from_str(&sidecar.ask("/debug/state").1).expect("JSON")
}

/// How many pairs are too large, or refused, by the metric.
fn failing(sidecar: &Sidecar) -> Option<f64> {
    sidecar.metric(
        "remote_sync_pairs{remote=\"hub\",resource=\"widgets.sync.example.com\",state=\"failing\"}",
    )
}

#[test]
fn oversized_objects_fail_alone() {
    let subject = Remote::new("sync-shapes");
    let sidecar = subject.start();
    subject.copies(&sidecar, "before");
    let values = shapes::values();
    for (index, (_, value)) in values.iter().enumerate() {
        widget(&subject, &format!("odd-{index}"), value);
    }
    let all = f64::from(u32::try_from(values.len()).expect("few"));
    // Two are texts that fit.
    within(60, &format!("all are named\n{}", sidecar.log()), || {
        failing(&sidecar).unwrap_or(0.0) >= all - 2.0
    });
    subject.copies(&sidecar, "after");
    let apart = state(&sidecar)["remotes"]["hub"]["notInSync"].clone();
    let apart = apart.as_array().expect("a list");
    assert!(apart.iter().any(|it| it["state"] == "failing"), "{apart:?}");
    assert!(
        sidecar.count("state=failing error=\"the source needs more than 2048 KiB") > 0,
        "{}",
        sidecar.log()
    );
    subject.container.fits(&sidecar);

    // Smaller again, it goes on; and one that grows keeps its copy.
    let metadata = subject.source("before").read()["metadata"].clone();
    widget(&subject, "before", &shapes::values()[0].1);
    let of_before = |it: &Value| it["pair"].as_str().is_some_and(|it| it.ends_with("/before"));
    let noted = || {
        let state = state(&sidecar);
        let apart = state["remotes"]["hub"]["notInSync"].as_array().cloned().unwrap_or_default();
        apart.iter().any(of_before)
    };
    within(20, "it is too large", noted);
    stays("the copy is there", || subject.stage.target(&WIDGETS, "before").number() == Some(1));
    subject.hub().put(json!({
        "apiVersion": WIDGETS.resource.api_version(), "kind": "Widget",
        "metadata": metadata, "spec": {"size": 3},
    }));
    within(20, "it goes on", || subject.stage.target(&WIDGETS, "before").number() == Some(3));
    subject.container.fits(&sidecar);
}

#[test]
fn large_objects_that_fit_are_copied_a_few_at_a_time() {
    let subject = Remote::new("sync-large");
    let text = json!("x".repeat(1_400_000));
    for index in 0..12 {
        widget(&subject, &format!("large-{index}"), &text);
    }
    let sidecar = subject.start();
    for index in 0..12 {
        let target = subject.stage.target(&WIDGETS, &format!("large-{index}"));
        within(60, &format!("{index} arrives\n{}", sidecar.log()), || {
            target.get().filter(|it| it["spec"]["x"] == text)
        });
    }
    subject.container.fits(&sidecar);
}

#[test]
fn too_many_objects_stop_only_their_kind() {
    let subject = Remote::new("sync-many");
    let sidecar = subject.start();
    subject.copies(&sidecar, "before");
    let (namespace, name) = (&subject.stage.namespace, "n".repeat(230));
    for index in 0..25_000 {
        subject.hub().put(json!({
            "apiVersion": WIDGETS.resource.api_version(), "kind": "Widget",
            "metadata": {"name": format!("{name}-{index}"), "namespace": namespace},
            "spec": {"size": 1},
        }));
    }
    within(60, &format!("it is told\n{}", sidecar.log()), || {
        sidecar.count("there are more than 20000 widgets on cluster hub") > 0
    });
    let ready = sidecar.ask("/readyz");
    assert!(ready.0 == 200 && ready.1.contains("see -max-objects"), "{ready:?}");
    let metric = "remote_sync_resource_ready{remote=\"hub\",resource=\"widgets.sync.example.com\"}";
    assert_eq!(sidecar.metric(metric), Some(0.0));
    // Nothing is deleted by half of a list.
    stays("the copy is there", || subject.stage.target(&WIDGETS, "before").number() == Some(1));
    assert_eq!(sidecar.ask("/healthz").0, 200);
    subject.container.fits(&sidecar);
}

#[test]
fn refused_objects_are_noted_in_bounded_room() {
    let subject = Remote::new("sync-refused");
    let refusal =
        json!({"kind": "Status", "code": 422, "reason": "Invalid", "message": "no ".repeat(500)});
    let own = subject.stage.own.cluster.faults();
    own.add(about("widgets", "create", answer(422, &refusal)));
    let name = "n".repeat(200);
    for index in 0..3000 {
        widget(&subject, &format!("{name}-{index}"), &json!(0));
    }
    let sidecar = subject.start_with(&["-qps=0"]);
    within(120, "all were tried", || failing(&sidecar) >= Some(3000.0));
    subject.container.fits(&sidecar);
}
