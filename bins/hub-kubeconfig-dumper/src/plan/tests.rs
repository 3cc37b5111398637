//! The plan on a model of a directory: every step leaves a set that belongs together, from any start.

use super::*;

const MODES: Modes = Modes { directory: None, file: None };
const ASKED: Modes = Modes { directory: Some(0o700), file: Some(0o600) };

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

fn set(version: u8, names: &[&str]) -> Files {
    names.iter().map(|name| ((*name).to_owned(), vec![version].into())).collect()
}

/// A directory after some steps.
#[derive(Clone, Debug, Default)]
struct Model {
    generations: BTreeMap<String, Generation>,
    data: Option<String>,
    links: Vec<String>,
    plain: Files,
}

impl Model {
    fn found(&self) -> Found {
        let ours = self.links.iter().map(|name| (name.clone(), PathEntry::Ours));
        let plain = self.plain.iter();
        let plain =
            plain.map(|(name, text)| (name.clone(), PathEntry::Plain(Some((text.clone(), 0o600)))));
        Found {
            mode: 0o700,
            current: self.data.as_ref().and_then(|name| self.generations.get(name)).cloned(),
            generations: self.generations.keys().cloned().collect(),
            entries: ours.chain(plain).collect(),
        }
    }

    fn apply(&mut self, step: &PlanStep) {
        match step {
            PlanStep::SetMode(_) => {}
            PlanStep::RemoveGeneration(name) => drop(self.generations.remove(name)),
            PlanStep::Unlink(name) => self.links.retain(|link| link != name),
            PlanStep::Write(new) => {
                assert!(self.generations.insert(new.name.clone(), new.clone()).is_none());
            }
            PlanStep::Switch(name) => {
                assert!(self.generations.contains_key(name), "switched to nothing");
                self.data = Some(name.clone());
            }
            PlanStep::Link(name) => {
                self.plain.remove(name);
                self.links.retain(|link| link != name);
                self.links.push(name.clone());
            }
        }
    }

    /// The content at the files' own paths.
    fn view(&self) -> Files {
        let current = self.data.as_ref().and_then(|name| self.generations.get(name));
        let current = current.map(|generation| &generation.files);
        let linked = self.links.iter().filter_map(|name| Some((name, current?.get(name)?)));
        linked.chain(&self.plain).map(|(name, text)| (name.clone(), text.clone())).collect()
    }

    fn run(&mut self, wanted: &Files, now: SystemTime) -> Vec<PlanStep> {
        let steps = plan(&self.found(), wanted, MODES, now).unwrap();
        steps.iter().for_each(|step| self.apply(step));
        steps
    }
}

/// A small generator, for the same cases on each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % limit
    }

    fn names(&mut self) -> Vec<&'static str> {
        let all = ["kubeconfig", "tls.crt", "tls.key", "cluster-name"];
        let mut some: Vec<_> = all.into_iter().filter(|_| self.below(3) > 0).collect();
        some.push("agent-name");
        some
    }
}

#[test]
fn death_after_any_step_shows_the_old_set_or_the_new_one() {
    let mut random = Random(7);
    for case in 0..1000_u64 {
        let mut model = Model::default();
        let (old, new) = (set(1, &random.names()), set(2, &random.names()));
        match random.below(3) {
            0 => model.plain = old.clone(),
            1 => drop(model.run(&old, at(0))),
            // Some are plain files, as after a restored backup.
            _ => {
                model.run(&old, at(0));
                let name = model.links.remove(0);
                model.plain.insert(name.clone(), old[&name].clone());
            }
        }
        let before = model.view();
        // A plain file that is no key of the Secret is not ours.
        let foreign = model.plain.iter().filter(|(name, _)| !new.contains_key(*name));
        let mut after: Files = foreign.map(|(n, text)| (n.clone(), text.clone())).collect();
        after.extend(new.clone());
        let steps = plan(&model.found(), &new, MODES, at(60)).unwrap();
        for dead_after in 0..=steps.len() {
            let mut model = model.clone();
            for step in &steps[..dead_after] {
                model.apply(step);
                let view = model.view();
                assert!(view == before || view == after, "case {case}: {view:?} after {step:?}");
            }
            model.run(&new, at(120));
            assert_eq!(model.view(), after, "case {case}");
            assert!(
                model
                    .run(&new, at(200))
                    .iter()
                    .all(|step| matches!(step, PlanStep::RemoveGeneration(_)))
            );
            assert!(model.generations.len() <= 2, "case {case}: {model:?}");
            assert_eq!(model.run(&new, at(300)), [], "case {case}: then there is peace");
        }
    }
}

#[test]
fn two_generations_stay_and_every_one_for_ten_seconds() {
    let mut model = Model::default();
    let version = |n: u8| set(n, &["kubeconfig"]);
    for second in 0..30_u8 {
        model.run(&version(second), at(second.into()));
        let shown: Vec<u8> =
            model.generations.values().map(|set| set.files["kubeconfig"][0]).collect();
        // The one of n seconds ago was current until n - 1 seconds ago.
        let expected: Vec<u8> = (second.saturating_sub(10)..=second).collect();
        assert_eq!(shown, expected);
    }
    model.run(&version(29), at(39));
    assert_eq!(model.generations.len(), 2);
    model.run(&version(29), at(100_000));
    assert_eq!(model.generations.len(), 2, "the one before the current one stays until the next");
}

#[test]
fn names_grow_when_the_clock_is_set_back() {
    let mut model = Model::default();
    model.run(&set(1, &["a"]), at(1000));
    model.run(&set(2, &["a"]), at(0));
    let names: Vec<_> = model.generations.keys().cloned().collect();
    assert_eq!(model.data.as_ref(), names.last());
    assert_eq!(names, ["..2023-11-14T22_30_00.000000Z", "..2023-11-14T22_30_00.000001Z"]);
    for name in names {
        assert!(is_generation(&name), "{name}");
    }
    let end = "..9999-12-31T23_59_59.999999Z";
    for other in
        ["..data", end, "..2026_11_21_12_00_00.123456789", "..2023-11-14T22_30_00Z", "x", ".."]
    {
        assert!(!is_generation(other), "{other}");
    }
}

#[test]
fn modes_that_were_asked_for_come_with_a_new_generation() {
    let mut model = Model::default();
    let wanted = set(1, &["a", "b"]);
    model.run(&wanted, at(0));
    let mut found = model.found();
    found.mode = 0o755;
    found.current.as_mut().unwrap().modes.insert("b".into(), 0o644);
    let steps = plan(&found, &wanted, ASKED, at(1)).unwrap();
    let [PlanStep::SetMode(0o700), PlanStep::Write(new), PlanStep::Switch(_)] = &*steps else {
        panic!("{steps:?}");
    };
    assert!(new.files == wanted && new.modes.values().all(|mode| *mode == 0o600), "{new:?}");
    assert_eq!(plan(&found, &wanted, MODES, at(1)).unwrap(), [], "nobody asked");
}

#[test]
fn what_others_could_read_before_they_can_read_after() {
    let mut model = Model { plain: set(1, &["a", "b"]), ..Model::default() };
    let mut found = model.found();
    found.mode = 0o777;
    let Some(PathEntry::Plain(Some((_, mode)))) = found.entries.get_mut("a") else { panic!() };
    *mode = 0o644;
    let steps = plan(&found, &set(2, &["a", "b", "c"]), MODES, at(0)).unwrap();
    steps.iter().for_each(|step| model.apply(step));
    let modes = |model: &Model| {
        let current = &model.generations[model.data.as_ref().unwrap()];
        (current.mode, ["a", "b", "c"].map(|name| current.modes[name]))
    };
    assert_eq!(modes(&model), (0o755, [0o644, 0o600, 0o600]), "but they need not write");
    // At the next rotation too.
    model.run(&set(3, &["a", "b", "c"]), at(60));
    assert_eq!(modes(&model).1, [0o644, 0o600, 0o600]);
    let found = Found { mode: 0o777, ..model.found() };
    let steps = plan(&found, &set(4, &["a", "b", "c"]), ASKED, at(120)).unwrap();
    steps.iter().for_each(|step| model.apply(step));
    assert_eq!(modes(&model), (0o700, [0o600; 3]), "unless somebody asks for it");
}

#[test]
fn entry_in_the_way_is_replaced_unless_a_directory() {
    let wanted = set(1, &["a"]);
    for (entry, linked) in
        [(PathEntry::Other, true), (PathEntry::Plain(None), true), (PathEntry::Ours, false)]
    {
        let found = Found { entries: [("a".to_owned(), entry)].into(), ..Found::default() };
        let steps = plan(&found, &wanted, MODES, at(0)).unwrap();
        assert_eq!(steps.contains(&PlanStep::Link("a".into())), linked, "{found:?}");
    }
    let found =
        Found { entries: [("a".to_owned(), PathEntry::Directory)].into(), ..Found::default() };
    let refusal = plan(&found, &wanted, MODES, at(0)).unwrap_err();
    assert_eq!(refusal, "a is a directory there: it has to be removed");
}

#[test]
fn what_a_dead_process_left_goes_first() {
    let mut model = Model::default();
    model.run(&set(1, &["a"]), at(0));
    let mut found = model.found();
    let unfinished = "..2030-01-01T00_00_00.000000Z".to_owned();
    found.generations.push(unfinished.clone());
    let steps = plan(&found, &set(1, &["a"]), MODES, at(1)).unwrap();
    assert_eq!(steps, [PlanStep::RemoveGeneration(unfinished)]);
}

#[test]
fn a_kubeconfig_that_can_be_read_counts() {
    let mut model = Model::default();
    assert!(!has_kubeconfig(&model.found()));
    model.plain = set(1, &["kubeconfig"]);
    assert!(has_kubeconfig(&model.found()));
    model.run(&set(1, &["kubeconfig"]), at(0));
    assert!(has_kubeconfig(&model.found()));
    model.run(&set(1, &["agent-name"]), at(1));
    assert!(!has_kubeconfig(&model.found()));
}
