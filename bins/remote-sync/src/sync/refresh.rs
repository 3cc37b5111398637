//! Live reads of a pair's objects: for decisions that may be based on an older state.

use std::time::Instant;

use apiclient::{
    error::{Error, Result},
    resource::NAMESPACES,
};

use crate::{
    cache::store::Answer,
    sync::pair::{PairContext, odd},
};

impl PairContext<'_> {
    /// Reads both objects and the namespace.
    pub(crate) fn refresh(&self) -> Result<()> {
        let observed = self.observe(Instant::now());
        match self.ask_source(&|client| client.get(&self.at_source())) {
            Ok(object) if observed.source.is_some() => {
                self.store_source(object)?;
            }
            Err(Error::NotFound(_)) => {
                observed.source.iter().for_each(|source| self.forget_source(source.uid));
            }
            other => drop(other?),
        }
        match self.ask_target(&|client| client.get(&self.at_target())) {
            Ok(object) => {
                self.store_target(object)?;
            }
            Err(Error::NotFound(_)) => {
                observed.target.iter().for_each(|target| self.forget_target(target.uid));
            }
            Err(error) => return Err(error),
        }
        self.refresh_namespace()
    }

    /// Reads the target's namespace, if there is one that is followed.
    pub(crate) fn refresh_namespace(&self) -> Result<()> {
        if self.target.0.is_empty() || !self.remote.target.follows_namespaces {
            return Ok(());
        }
        let place = NAMESPACES.cluster_object(&self.target.0);
        let lists = self.remote.target.namespaces.lists();
        let answer = match self.ask_target(&|client| client.get(&place)) {
            Ok(object) => {
                let namespace =
                    self.context.reader.namespace(&object).ok_or_else(|| odd(&place))?;
                Some(Answer::object(lists, namespace))
            }
            Err(Error::NotFound(_)) => {
                let seen = self.observe(Instant::now()).namespace;
                seen.map(|namespace| Answer::absent(lists, namespace.uid))
            }
            Err(error) => return Err(error),
        };
        self.remote.with_answers(self.id, |answers| answers.namespace = answer);
        Ok(())
    }
}
