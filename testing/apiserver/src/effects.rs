//! The effects of faults: answers that replace or change the server's own.

use serde_json::{Value, json};

use crate::{http::Answer, rules::Action, status::Status, target::Target, user::User};

/// Returns the answer of a fault that replaces the server's.
pub(crate) fn replacement(action: &Action, target: &Target, user: &User) -> Option<Answer> {
    Some(match action {
        Action::Answer { code, body, retry_after } => {
            let mut answer = injected(*code, body.as_deref());
            let retry_after = retry_after.clone();
            answer.headers.extend(retry_after.map(|value| ("Retry-After".into(), value)));
            answer
        }
        // Authentication comes before authorization: an unknown user gets a 401.
        Action::Forbid if user.name.is_empty() => return None,
        Action::Forbid => Answer::status(&forbidden(target, user)),
        Action::NotJson => injected(200, Some("<html><body>Sign in to the network</body></html>")),
        Action::WrongKind => {
            let other = json!({
                "kind": "Widget", "apiVersion": "example.com/v1",
                "metadata": {"name": "other"}, "spec": {"x": [1, "2", null]},
            });
            Answer::json(200, &other)
        }
        Action::Redirect { location } => {
            let mut answer = Answer::text(307, "");
            answer.headers.push(("Location".into(), location.clone()));
            answer
        }
        Action::HugeBody { .. } => Answer::json(200, &Value::Null),
        _ => return None,
    })
}

fn injected(code: u16, body: Option<&str>) -> Answer {
    let Some(body) = body else { return Answer::status(&Status::generic(code)) };
    let mut answer = Answer::text(code, body);
    let kind = if body.starts_with('<') { "text/html; charset=utf-8" } else { "application/json" };
    answer.content_type = kind.into();
    answer
}

/// Returns a 403 in the RBAC authorizer's words.
pub(crate) fn forbidden(target: &Target, user: &User) -> Status {
    let (name, verb) = (&user.name, target.verb);
    let resource = match target.subresource.as_str() {
        "" => target.resource.clone(),
        subresource => format!("{}/{subresource}", target.resource),
    };
    let place = match target.namespace.as_str() {
        "" => "at the cluster scope".into(),
        namespace => format!("in the namespace \"{namespace}\""),
    };
    let why = format!(
        "User \"{name}\" cannot {verb} resource \"{resource}\" in API group \"{}\" {place}",
        target.group
    );
    Status::forbidden(&target.group, &target.resource, &target.name, &why)
}

/// Sets the `spec` of the body to null.
pub(crate) fn null_spec(answer: &mut Answer) {
    if let Ok(mut object) = serde_json::from_slice::<Value>(&answer.body)
        && object.is_object()
    {
        object["spec"] = Value::Null;
        answer.body = object.to_string().into_bytes();
    }
}
