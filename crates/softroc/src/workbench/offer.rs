//! The choices of the forms: the built-in catalogs.

use models::{ControllerSpec, DriveSpec};
use std::sync::OnceLock;
use storagebench::{Catalog, Entry, Profile};
use webconsole::{Load, Model, Offer};

/// All choices.
pub(super) fn all() -> &'static Offer {
    static OFFER: OnceLock<Offer> = OnceLock::new();
    OFFER.get_or_init(|| {
        let models = models::Catalog::builtin();
        Offer {
            profiles: Catalog::builtin()
                .groups()
                .iter()
                .flat_map(|group| &group.entries)
                .map(load)
                .collect(),
            controllers: models.controllers.iter().map(controller).collect(),
            drives: models.drives.iter().map(drive).collect(),
        }
    })
}

fn load(entry: &Entry) -> Load {
    let load = match &entry.profiles[..] {
        [only] => only.description(),
        [first, .., last] => {
            format!("{} loads, {} to {}", entry.profiles.len(), first.description(), last.name())
        }
        [] => String::new(),
    };
    let writes = entry.profiles.iter().any(Profile::writes);
    Load { name: entry.name.clone(), load, prose: entry.prose.clone(), writes }
}

/// The short name of a choice, if it has one.
fn name(aliases: &[String], model: &str) -> String {
    aliases.first().map_or(model, String::as_str).to_owned()
}

fn controller(spec: &ControllerSpec) -> Model {
    Model {
        name: name(&spec.aliases, &spec.model),
        about: spec.model.clone(),
        rotates: false,
        strips_kib: spec.strips_kib.clone(),
    }
}

fn drive(spec: &DriveSpec) -> Model {
    let kind = if spec.is_rotating() { "rotating" } else { "solid state" };
    Model {
        name: name(&spec.aliases, &spec.model),
        about: format!("{}, {kind}, {}", spec.model, spec.link),
        rotates: spec.is_rotating(),
        strips_kib: Vec::new(),
    }
}
