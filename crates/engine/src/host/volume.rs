//! A volume as one shard serves it to hosts.

use crate::attachment::Attachment;
use crate::host::Exchange;
use crate::members::Drives;
use crate::recovery::Recovery;
use crate::shard::Resources;
use crate::stripe::Stripes;
use std::ops::Deref;
use std::rc::Rc;

/// A volume on one shard. It derefs to the rooms below: [`Recovery`], [`Stripes`], [`Drives`].
pub struct Volume {
    recovery: Rc<Recovery>,
    pub(super) exchange: Rc<Exchange>,
    /// Whether hosts do not get to see it.
    hidden: bool,
}

impl Deref for Volume {
    type Target = Rc<Recovery>;

    fn deref(&self) -> &Rc<Recovery> {
        &self.recovery
    }
}

impl Volume {
    pub(crate) fn attach(
        shard: &Resources,
        exchange: &Rc<Exchange>,
        attachment: &Attachment,
    ) -> env::Result<Rc<Volume>> {
        let drives = Drives::attach(shard, attachment)?;
        let recovery = Recovery::new(Stripes::new(drives, attachment));
        Ok(Rc::new(Volume { recovery, exchange: exchange.clone(), hidden: attachment.hidden }))
    }

    /// What serves its stripes, for work in the background.
    pub(crate) fn recovery(&self) -> &Rc<Recovery> {
        &self.recovery
    }

    /// Whether hosts do not get to see it: it is being initialised as a whole.
    pub(crate) fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// The shard it was looked up on.
    pub fn shard(&self) -> &Resources {
        &self.shard
    }
}
