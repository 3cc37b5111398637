//! What all passes have in common.

use crate::{
    model::{digest::Digester, object::Reader},
    settings::Settings,
    sync::{metrics::Counts, permits::Permits},
};

/// What the process was told, how it reads objects, and what it counts.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) reader: Reader,
    pub(crate) counts: Counts,
    pub(crate) permits: Permits,
}

impl Context {
    pub(crate) fn new(settings: Settings) -> Self {
        let reader = Reader {
            digester: Digester::default(),
            keys: settings.keys.clone(),
            finalizer: settings.finalizer.clone(),
            mode: settings.mode,
        };
        Self { settings, reader, counts: Counts::default(), permits: Permits::default() }
    }
}
