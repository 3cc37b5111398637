//! The authenticated user of a request.

/// A name and its groups.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct User {
    /// Name, for example `system:serviceaccount:a:b`.
    pub name: String,
    /// Groups, including `system:authenticated`.
    pub groups: Vec<String>,
}

impl User {
    pub(crate) fn new<T: Into<String>>(name: &str, groups: impl IntoIterator<Item = T>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        if !groups.iter().any(|group| group == "system:authenticated") {
            groups.push("system:authenticated".into());
        }
        Self { name: name.into(), groups }
    }

    pub(crate) fn anonymous() -> Self {
        Self { name: "system:anonymous".into(), groups: vec!["system:unauthenticated".into()] }
    }

    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }
}
