//! Executor of a work: the service account whose permissions limit what it applies (ocm `pkg/work/spoke/auth`).
//!
//! The agent impersonates the account, so that the API server authorizes each write. It checks `delete` beforehand,
//! because it deletes with its own permissions.

use apiclient::{
    error::{Error, Result},
    resource::{Resource, Target, valid_label, valid_name},
};
use serde_json::{Value, json};

use super::{
    io::{Side, WorkIo},
    objects::{ManifestWorkExecutor, ServiceAccount},
};

pub(crate) static SUBJECT_ACCESS_REVIEWS: Resource =
    Resource::v1("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview");

impl ManifestWorkExecutor {
    /// # Errors
    /// Why no account can be impersonated, in upstream's words if it has any.
    pub(crate) fn account(&self) -> std::result::Result<&ServiceAccount, String> {
        if self.subject.kind != "ServiceAccount" {
            return Err("only support ServiceAccount type for the executor".to_owned());
        }
        let account = self.subject.service_account.as_ref();
        let account = account.ok_or("the executor service account is nil")?;
        match valid_label(&account.namespace) && valid_name(&account.name) {
            true => Ok(account),
            false => {
                Err("the executor's service account must have a valid name and namespace"
                    .to_owned())
            }
        }
    }
}

impl ServiceAccount {
    pub(crate) fn user_name(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Returns a SubjectAccessReview for deleting an object.
    fn review_delete(&self, target: &Target<'_>) -> Value {
        let Resource { group, version, plural, .. } = target.resource;
        let groups = [
            "system:serviceaccounts".to_owned(),
            "system:authenticated".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
        ];
        json!({
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version(),
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": {
                "user": self.user_name(),
                "groups": groups,
                "resourceAttributes": {
                    "verb": "delete",
                    "group": group,
                    "version": version,
                    "resource": plural,
                    "namespace": target.namespace.unwrap_or_default(),
                    "name": target.name.unwrap_or_default(),
                },
            },
        })
    }
}

/// # Errors
/// `Forbidden` only if the account may not delete the object, which the work will own.
pub(crate) fn check_delete(
    io: &mut dyn WorkIo,
    account: &ServiceAccount,
    target: &Target<'_>,
) -> Result<()> {
    let reviews = SUBJECT_ACCESS_REVIEWS.everywhere();
    let review = io.create(Side::Managed, &reviews, &account.review_delete(target));
    let review = review.map_err(|error| match error {
        // The agent lacks a permission, not the account.
        Error::Forbidden(why) => Error::Invalid(why),
        error => error,
    })?;
    match review["status"]["allowed"] == true {
        true => Ok(()),
        false => Err(Error::Forbidden(format!("the executor may not delete {target}"))),
    }
}

/// Returns upstream's sentence about a missing permission of the executor.
pub(crate) fn denial(target: &Target<'_>, why: &str) -> String {
    let Resource { group, plural, .. } = target.resource;
    let (namespace, name) = (target.namespace.unwrap_or_default(), target.name.unwrap_or_default());
    format!(
        "not allowed to apply the resource {group} {plural}, {namespace} {name}, will try again in 1m0s: {why}"
    )
}

#[cfg(test)]
mod tests {
    use apiclient::{api::parse, resource::CONFIGMAPS};

    use super::*;

    fn executor(kind: &str, account: Value) -> ManifestWorkExecutor {
        parse(json!({"subject": {"type": kind, "serviceAccount": account}})).unwrap()
    }

    #[test]
    fn account_is_impersonated_by_its_name() {
        let executor = executor("ServiceAccount", json!({"namespace": "n", "name": "sa"}));
        let account = executor.account().unwrap();
        assert_eq!(account.user_name(), "system:serviceaccount:n:sa");
        let target = CONFIGMAPS.object_in("n", "a");
        let asked = account.review_delete(&target)["spec"]["resourceAttributes"].clone();
        assert_eq!((&asked["verb"], &asked["resource"]), (&json!("delete"), &json!("configmaps")));
        let sentence = denial(&target, "x");
        assert_eq!(
            sentence,
            "not allowed to apply the resource  configmaps, n a, will try again in 1m0s: x"
        );
    }

    #[test]
    fn other_executors_are_refused() {
        for (kind, account) in [
            ("User", json!({"namespace": "n", "name": "sa"})),
            ("ServiceAccount", Value::Null),
            ("ServiceAccount", json!({"namespace": "n", "name": "a\r\nX: y"})),
            ("ServiceAccount", json!({"namespace": "", "name": "sa"})),
        ] {
            assert!(executor(kind, account.clone()).account().is_err(), "{kind} {account}");
        }
    }
}
