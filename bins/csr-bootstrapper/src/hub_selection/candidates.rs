//! Bootstrap kubeconfigs of several hubs, as they were read, and the selected one. No I/O, no clock.

use crate::bootstrap::{BootstrapCandidate, BootstrapKubeconfig, NoBootstrap, server_of};

/// All bootstrap kubeconfigs; none while there is a single hub.
#[derive(Default)]
pub(crate) struct HubCandidates {
    /// In the order of the flags; `None` until it was read.
    all: Vec<Option<BootstrapCandidate>>,
    /// Changes so far.
    pub(crate) changes: u64,
    /// The index of the selected one, and its server.
    selected: Option<(usize, String)>,
    /// The server that an earlier process asked for a certificate, without an answer yet; it counts until one is
    /// selected.
    pub(crate) joined: Option<String>,
    /// The reason why the last selection found none.
    pub(crate) trouble: Option<String>,
}

impl HubCandidates {
    /// Room for `count` of them.
    pub(crate) fn new(count: usize) -> Self {
        Self { all: vec![None; count], ..Self::default() }
    }

    /// Returns whether the one at `index` is this.
    pub(crate) fn has(&self, index: usize, candidate: &BootstrapCandidate) -> bool {
        self.all[index].as_ref() == Some(candidate)
    }

    /// Sets the one at `index`; returns whether it is the selected one. That ends with another server: another hub has
    /// to be selected first. A kubeconfig that cannot be read says nothing about the hub.
    pub(crate) fn set(&mut self, index: usize, candidate: BootstrapCandidate) -> bool {
        self.changes += 1;
        let is_other = |server: &str| {
            candidate.as_ref().is_ok_and(|bootstrap| server_of(&bootstrap.hub) != server)
        };
        let ended =
            self.selected.as_ref().is_some_and(|(at, server)| *at == index && is_other(server));
        if ended {
            self.selected = None;
        }
        self.all[index] = Some(candidate);
        self.selected.as_ref().is_some_and(|(at, _)| *at == index)
    }

    /// Selects the one at `index`; returns it if it is still valid, and for `asked`: another server has given no answer.
    pub(crate) fn select(
        &mut self,
        index: usize,
        asked: Option<&str>,
    ) -> Option<BootstrapKubeconfig> {
        let bootstrap = self.get(index)?.clone();
        let server = server_of(&bootstrap.hub);
        if Some(server) != asked {
            return None;
        }
        self.joined = None;
        self.selected = Some((index, server.to_owned()));
        Some(bootstrap)
    }

    /// The index of the selected one, and its server.
    pub(crate) fn selected(&self) -> Option<(usize, &str)> {
        self.selected.as_ref().map(|(index, server)| (*index, server.as_str()))
    }

    /// The reason why no bootstrap kubeconfig is in use, while there is none.
    pub(crate) fn no_bootstrap(&self) -> NoBootstrap {
        match &self.trouble {
            _ if self.all.is_empty() || self.selected.is_some() => NoBootstrap::Invalid,
            None => NoBootstrap::Selecting,
            Some(_) => NoBootstrap::Unselected,
        }
    }

    /// The selected one and the reason why there is no better, in sentences for the endpoint.
    pub(crate) fn remarks(&self) -> impl Iterator<Item = String> + use<> {
        let selected = self.selected().map(|(_, server)| format!("hub {server} is selected"));
        selected.into_iter().chain(self.no_hub())
    }

    /// The reason why there is none to select, in a sentence.
    pub(crate) fn no_hub(&self) -> Option<String> {
        self.trouble.as_ref().map(|why| format!("no hub can be selected: {why}"))
    }

    /// The one at `index`, if it is valid.
    pub(crate) fn get(&self, index: usize) -> Option<&BootstrapKubeconfig> {
        self.all.get(index)?.as_ref()?.as_ref().ok()
    }

    /// The servers of all; `None` where there is no valid one.
    pub(crate) fn servers(&self) -> Vec<Option<String>> {
        let server = |index| self.get(index).map(|it| server_of(&it.hub).to_owned());
        (0..self.all.len()).map(server).collect()
    }

    /// Returns whether some have not been read yet.
    pub(crate) fn has_unread(&self) -> bool {
        self.all.contains(&None)
    }

    /// The reasons why some are not valid, by index.
    pub(crate) fn defects(&self) -> impl Iterator<Item = (usize, &String)> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(index, candidate)| Some((index, candidate.as_ref()?.as_ref().err()?)))
    }
}

#[cfg(test)]
mod tests {
    use kubeconfig::config::Trust;

    use super::*;
    use crate::bootstrap::tests::bootstrap_at;

    const HUB: &str = "https://hub1:6443";
    const OTHER: &str = "https://hub2:6443";

    fn candidate(server: &str) -> BootstrapCandidate {
        Ok(bootstrap_at(server, Trust::System))
    }

    #[test]
    fn kubeconfig_changed_during_its_check_is_not_selected() {
        let mut candidates = HubCandidates::new(2);
        candidates.set(0, candidate(HUB));
        candidates.joined = Some(HUB.into());
        for changed in [candidate(OTHER), Err("it is empty".into())] {
            candidates.set(0, changed);
            assert!(candidates.select(0, Some(HUB)).is_none());
            assert_eq!(candidates.selected(), None);
            assert!(candidates.joined.is_some(), "nothing has happened");
        }
        candidates.set(0, candidate(&format!("{HUB}/")));
        assert!(candidates.select(0, Some(HUB)).is_some());
        assert_eq!(candidates.selected(), Some((0, HUB)));
        assert_eq!(candidates.joined, None);
    }

    #[test]
    fn only_another_hub_in_the_file_ends_the_selection() {
        let mut candidates = HubCandidates::new(1);
        candidates.set(0, candidate(HUB));
        candidates.select(0, Some(HUB));
        assert!(candidates.set(0, Err("it is empty".into())));
        assert_eq!(candidates.no_bootstrap(), NoBootstrap::Invalid);
        assert!(!candidates.set(0, candidate(OTHER)));
        assert_eq!(candidates.no_bootstrap(), NoBootstrap::Selecting);
        candidates.trouble = Some("it does not answer".into());
        assert_eq!(candidates.no_bootstrap(), NoBootstrap::Unselected);
    }
}
