//! What demos, budget, bench, soak and chaos share. The programs are in `src/bin`; the [`suite`] has the stages that
//! they play on.

pub mod chaos;
pub mod demo;
pub mod dice;
pub mod figures;
pub mod measure;
pub mod recording;
pub mod term;
