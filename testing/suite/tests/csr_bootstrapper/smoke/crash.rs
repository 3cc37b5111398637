//! kill -9 after every write of a join and of a rotation.

use suite::{
    kill::Moment,
    needs::{Need, needs},
};

use crate::certificate::crash::{Work, at_every_write};

#[test]
fn kill_after_every_write_of_a_join_leaves_one_csr() {
    if needs(Need::Embedded, "faults are asked for") {
        assert!(at_every_write(Work::Join, false, Moment::After) >= 6);
        assert!(at_every_write(Work::Join, true, Moment::After) >= 3);
    }
}

#[test]
fn kill_after_every_write_of_a_rotation_leaves_one_csr() {
    if needs(Need::Embedded, "faults are asked for") {
        assert!(at_every_write(Work::Rotation, false, Moment::After) >= 5);
        assert!(at_every_write(Work::Rotation, true, Moment::After) >= 2);
    }
}
