//! Operations on pairs, servers and the program, all drawn from the seed in advance, so that a run can be repeated.

use fastrand::Rng;

/// The number of label and annotation keys that each side's owners use, different ones per side.
pub const KEYS: u64 = 3;
/// The longest outage, in operations.
const LONGEST: u64 = 60;

/// The largest content, in KiB.
const LARGEST: u64 = 300;

/// One of the two objects of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Source,
    Target,
}

/// When the program is killed.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// At any time.
    Now,
    /// A write was sent, but never arrives.
    Before,
    /// A write is done, but its answer has not arrived yet.
    After,
}

/// A key and its new value; None removes it.
pub type Note = (u64, Option<u64>);

#[derive(Clone, Copy, Debug)]
pub enum Operation {
    // --- by the owners of the specs ---
    Create(u64),
    Edit(u64),
    Label(Note),
    Annotate(Note),
    Delete,
    /// Deletes the source and removes all its finalizers, including ours.
    Force,
    /// Removes its finalizers.
    Strip,
    /// The source vanishes without a visible deletion, as after a restore from a backup.
    Lose,
    /// Creates the Secret beside the source, to which the target's Secret is uploaded.
    MakeSecret,
    /// Deletes that Secret.
    LoseSecret,
    /// Additional content in KiB, or none.
    Fill(Option<u64>),
    /// A field that the target's server may not know.
    Extra(Option<u64>),
    /// A status, which they do not own.
    ForeignStatus(u64),
    // --- by the owners of the statuses ---
    MakeTarget(u64),
    Status(u64),
    OwnLabel(Note),
    OwnAnnotation(Note),
    /// Content, which they do not own.
    ForeignContent(u64),
    ForeignLabel(u64),
    DeleteTarget,
    /// Writes a Secret that the target controls; `anew` replaces all of it, not only its data.
    Secret {
        value: u64,
        anew: bool,
    },
    // --- by anybody ---
    /// Adds or removes another owner's finalizer.
    Hold(End, bool),
    DeleteNamespace(End),
    /// Deletes the kind from the source's cluster, with all its objects.
    RemoveKind,
    // --- to servers, by number, and to the program ---
    Silence(u64, u64),
    Refuse(u64, u64),
    Cut(u64),
    /// One of the faults of single requests.
    Fault {
        server: u64,
        fault: u64,
        length: u64,
    },
    /// The server's clock is 400 days ahead or behind.
    Clock {
        server: u64,
        ahead: bool,
        length: u64,
    },
    /// Compacts the history and ends all watches.
    Compact(u64),
    /// Rotates the token; with a gap, the old one is revoked before the new one is written.
    Rotate {
        server: u64,
        gap: u64,
    },
    /// A server of targets starts to drop a field, or to keep it.
    Upgrade {
        server: u64,
        drops: bool,
    },
    /// The second remote shows the first one's uid.
    Clone(u64),
    Kill(Moment),
}

/// A planned operation.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    pub operation: Operation,
    /// The pair's number, modulo the number of pairs.
    pub pair: u64,
    /// The pause after it, in milliseconds.
    pub rest: u64,
}

impl Operation {
    /// Returns whether it affects a pair.
    pub fn is_of_pair(&self) -> bool {
        !matches!(
            self,
            Self::Silence(..)
                | Self::Refuse(..)
                | Self::Cut(_)
                | Self::Fault { .. }
                | Self::Clock { .. }
                | Self::Compact(_)
                | Self::Rotate { .. }
                | Self::Upgrade { .. }
                | Self::Clone(_)
                | Self::Kill(_)
        )
    }

    /// Returns whether it affects the connection to a server, or the program.
    pub fn is_of_way(&self) -> bool {
        matches!(self, Self::Silence(..) | Self::Refuse(..) | Self::Cut(_) | Self::Kill(_))
    }

    fn draw(random: &mut Rng) -> Self {
        let number = random.u64(..1_000_000);
        let note = (random.u64(..KEYS), (random.u64(..3) > 0).then_some(number));
        let end = if random.bool() { End::Source } else { End::Target };
        let (on, server, length) =
            (random.u64(..3) == 0, random.u64(..3), 1 + random.u64(..LONGEST));
        match random.u64(..1120) {
            0..130 => Self::Create(number),
            130..290 => Self::Edit(number),
            290..340 => Self::Label(note),
            340..390 => Self::Annotate(note),
            390..440 => Self::Delete,
            440..455 => Self::Force,
            455..465 => Self::Strip,
            465..495 => Self::MakeSecret,
            495..515 => Self::ForeignStatus(number),
            515..530 => Self::MakeTarget(number),
            530..640 | 835..885 => Self::Status(number),
            640..670 => Self::OwnLabel(note),
            670..700 => Self::OwnAnnotation(note),
            700..716 => Self::ForeignContent(number),
            716..730 => Self::Lose,
            730..745 => Self::ForeignLabel(number),
            745..765 => Self::DeleteTarget,
            765..835 => Self::Secret { value: number, anew: on },
            885..920 => Self::Hold(end, on),
            920..925 => Self::Clock { server, ahead: on, length },
            925..931 => Self::DeleteNamespace(end),
            931..937 => Self::Silence(server, length),
            937..943 => Self::Refuse(server, length),
            943..949 => Self::Cut(server),
            949..971 => Self::Fault { server, fault: number, length },
            971..977 => Self::Compact(server),
            977..983 => Self::Rotate { server, gap: if on { length } else { 0 } },
            1000..1020 => Self::Fill((random.u64(..3) > 0).then_some(1 + number % LARGEST)),
            1020..1063 => Self::Extra(note.1),
            1063..1069 => Self::Upgrade { server, drops: on },
            1069..1075 => Self::RemoveKind,
            1075..1081 => Self::Clone(length),
            1081..1111 => Self::LoseSecret,
            _ => Self::Kill(match number % 3 {
                0 => Moment::Now,
                1 => Moment::Before,
                _ => Moment::After,
            }),
        }
    }
}

/// Returns the operations of a run.
pub fn plan(seed: u64, count: usize) -> Vec<Planned> {
    let mut random = Rng::with_seed(seed);
    (0..count)
        .map(|_| {
            let (operation, pair) = (Operation::draw(&mut random), random.u64(..));
            // Mostly in immediate succession, at times with a pause for the program to come to rest.
            let rest = match random.u64(..20) {
                0..12 => 0,
                12..19 => random.u64(..12),
                _ => random.u64(..60),
            };
            Planned { operation, pair, rest }
        })
        .collect()
}
