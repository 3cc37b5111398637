//! Writes as they come to the servers, and what is needed.

use super::world::{Content, Csr, Key, Late, Request, Stored, World};

impl World {
    /// Fails if there is no reason for this write when it is sent.
    pub(super) fn justify(&self, request: Request) -> Result<(), String> {
        match request {
            Request::Delete(place) if self.secrets[place].is_some() && !self.unneeded[place] => {
                Err(format!("Secret {place} is deleted, which is needed"))
            }
            _ => Ok(()),
        }
    }

    /// Does a write, unless what it is about is not as its sender knew it; returns whether it was done.
    pub(super) fn take(&mut self, request: Request, current: bool) -> Result<bool, String> {
        if !current && !matches!(request, Request::Post(..)) {
            return Ok(false);
        }
        match request {
            Request::Store(place, stored) => self.set_store(place, Some(stored)),
            Request::Forget(place) => self.set_store(place, None),
            Request::Delete(place) if self.secrets[place] == Some(Content::Others) => {
                return Err("another cluster's Secret is deleted".into());
            }
            Request::Delete(place) => self.set_secret(place, None),
            Request::Save(place, key) => {
                self.set_secret(place, Some(Content::Ours(key)));
                // The hub sweeps away what was answered; here at once.
                if self.csrs.remove(&key).is_some_and(|csr| csr.current) {
                    self.needs_another();
                }
            }
            Request::Post(place, key) => self.post(place, key)?,
        }
        Ok(true)
    }

    fn post(&mut self, place: usize, key: Key) -> Result<(), String> {
        if self.csrs.contains_key(&key) {
            return Ok(());
        }
        // Another process may have done without it by the time that it comes.
        let is_asked_for = self.store[place] == Some(Stored { request: Some(key) });
        let current = is_asked_for && self.needs(place, key);
        if current && self.csrs.values().any(|csr| csr.current) {
            return Err("there are two CSRs for one certificate".into());
        }
        self.csrs.insert(key, Csr { uid: self.uid, issued: false, current });
        Ok(())
    }

    fn set_store(&mut self, place: usize, stored: Option<Stored>) {
        self.store[place] = stored;
        self.known[place] |= stored.is_some();
        self.process.iter_mut().for_each(|process| process.store_current = false);
        let is_of_store = |late: &&mut Late| late.guarded && late.request.is_of_store();
        self.late.iter_mut().filter(is_of_store).for_each(|late| late.current = false);
    }

    pub(super) fn set_secret(&mut self, place: usize, content: Option<Content>) {
        self.secrets[place] = content;
        self.known[place] = content.is_some();
        let is_of_it = |late: &&mut Late| match late.request {
            Request::Delete(of) | Request::Save(of, _) => of == place,
            _ => false,
        };
        self.late.iter_mut().filter(is_of_it).for_each(|late| late.current = false);
    }

    /// Returns whether the add-on needs a certificate for this key there.
    fn needs(&self, place: usize, key: Key) -> bool {
        let has_it = |subject| matches!(self.secrets[place], Some(Content::Ours(key)) if key.subject == subject);
        let addon = self.addon.filter(|addon| addon.is_at(place));
        addon.is_some_and(|addon| addon.subject == key.subject && !has_it(addon.subject))
    }

    /// The certificate that is needed now is another one than before.
    pub(super) fn needs_another(&mut self) {
        self.csrs.values_mut().for_each(|csr| csr.current = false);
    }

    pub(super) fn note_need(&mut self) {
        let addon = self.addon;
        let knows_all = self.process.as_ref().is_none_or(|process| process.view == Some(addon));
        for place in 0..2 {
            let is_needed = addon.is_some_and(|addon| addon.is_at(place));
            let before = self.unneeded[place] && !knows_all;
            self.unneeded[place] = before || !is_needed;
        }
    }

    /// A key that nothing has.
    pub(super) fn new_key(&self, subject: u8) -> Key {
        let is_free = |key: &Key| {
            !self.csrs.contains_key(key)
                && !self.secrets.contains(&Some(Content::Ours(*key)))
                && !self.store.contains(&Some(Stored { request: Some(*key) }))
                && self.late.is_none_or(|late| !late.request.has(*key))
                && self.process.as_ref().is_none_or(|process| !process.has(*key))
        };
        let mut all = (1..).map(|number| Key { number, subject });
        all.find(is_free).unwrap()
    }

    /// Whether everything is as it should be in the end.
    pub(super) fn settled(&self) -> Result<(), String> {
        let deleting = self.addon.is_some_and(|addon| addon.deleting);
        for place in 0..2 {
            let wanted = self.addon.filter(|addon| addon.is_at(place)).map(|addon| addon.subject);
            let secret = self.secrets[place];
            match (secret, wanted) {
                _ if deleting => {}
                (Some(Content::Ours(key)), Some(subject)) if key.subject != subject => {
                    return Err(format!(
                        "it rests with a certificate of another subject at {place}"
                    ));
                }
                (Some(Content::Ours(_)), Some(_)) => {}
                (_, Some(_)) => return Err(format!("it rests without a certificate at {place}")),
                (Some(Content::Ours(_)), None) if self.known[place] => {
                    return Err(format!("it rests with a Secret at {place} that nobody needs"));
                }
                (_, None) => {}
            }
            match (self.store[place], wanted) {
                _ if deleting => {}
                // Any other is the next one's.
                (Some(Stored { request: Some(key) }), _)
                    if Some(key.subject) != wanted || secret == Some(Content::Ours(key)) =>
                {
                    return Err("it rests with a request that has served, or never will".into());
                }
                (stored, wanted) if stored.is_some() != wanted.is_some() => {
                    return Err(format!("it rests with a store that is wrong about {place}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
