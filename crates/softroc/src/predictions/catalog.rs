//! `softroc catalog`: the drives and controllers for predictions.

use crate::cli::CatalogCommand;
use crate::failure::{Failure, Outcome};
use crate::output;
use models::{CacheSpec, Catalog, ControllerSpec, DriveSpec, RotatingSpec, Sourced, SsdSpec};
use serde_json::{Value, json};
use units::{ByteCount, decimal_capacity};

/// Runs the command.
pub fn run(command: &CatalogCommand) -> Outcome {
    let catalog = Catalog::builtin();
    match command {
        CatalogCommand::List(asked) if asked.json => {
            let drives: Vec<Value> = catalog.drives.iter().map(drive_json).collect();
            let controllers: Vec<Value> = catalog.controllers.iter().map(controller_json).collect();
            output::json(&json!({ "drives": drives, "controllers": controllers }))
        }
        CatalogCommand::List(_) => output::print(&list(catalog)),
        CatalogCommand::Show { name, output: asked } => show(catalog, name, asked.json),
    }
}

fn list(catalog: &Catalog) -> String {
    let drives: Vec<Vec<String>> = catalog
        .drives
        .iter()
        .map(|drive| {
            let capacity = decimal_capacity(ByteCount(drive.capacity_bytes));
            let kind = if drive.is_rotating() { "rotating" } else { "ssd" };
            vec![
                drive.aliases.join(", "),
                drive.model.clone(),
                kind.into(),
                drive.link.to_string(),
                capacity,
                figures(drive).into(),
            ]
        })
        .collect();
    let controllers: Vec<Vec<String>> = catalog
        .controllers
        .iter()
        .map(|controller| {
            let host = controller.host_link.map_or_else(|| "-".to_owned(), |link| link.to_string());
            vec![
                controller.aliases.join(", "),
                controller.model.clone(),
                host,
                format!("{} x {}", controller.ports, ports(controller)),
                controller.levels.join(" "),
            ]
        })
        .collect();
    format!(
        "{}\n\n{}",
        output::table(&["drive", "model", "kind", "link", "capacity", "figures"], &drives, &[]),
        output::table(&["controller", "product", "host", "drives", "levels"], &controllers, &[])
    )
}

/// The source of a drive's figures, in short.
fn figures(drive: &DriveSpec) -> &'static str {
    if drive.is_calibrated() { "calibrated" } else { "from the data sheet" }
}

/// The protocols of a controller's ports, as in its file.
fn ports(controller: &ControllerSpec) -> String {
    controller.drive_link.map_or_else(|| "any".to_owned(), |link| link.to_string())
}

fn numbers_json(values: &[Sourced]) -> Value {
    let number = |sourced: &Sourced| {
        (sourced.key.clone(), json!({ "value": sourced.value, "source": sourced.source }))
    };
    Value::Object(values.iter().map(number).collect())
}

fn drive_json(drive: &DriveSpec) -> Value {
    json!({
        "model": drive.model, "aliases": drive.aliases, "file": drive.file, "source": drive.source,
        "kind": if drive.is_rotating() { "rotating" } else { "ssd" },
        "interface": drive.link.to_string(), "calibrated": drive.is_calibrated(),
        "values": numbers_json(&drive.values),
    })
}

fn controller_json(controller: &ControllerSpec) -> Value {
    json!({
        "model": controller.model, "aliases": controller.aliases, "file": controller.file,
        "source": controller.source, "host": controller.host_link.map(|link| link.to_string()),
        "interface": ports(controller), "levels": controller.levels,
        "strips_kib": controller.strips_kib, "values": numbers_json(&controller.values),
        "cache": controller.cache.as_ref().map(|cache| json!({
            "protection": cache.protection, "presets": cache.presets, "settings": cache.settings,
        })),
    })
}

fn show(catalog: &Catalog, name: &str, as_json: bool) -> Outcome {
    let (json, file, values, note) = match (catalog.drive(name), catalog.controller(name)) {
        (Ok(drive), _) if !drive.is_calibrated() => {
            let note = "\n\nFrom the data sheet, not calibrated against measurements.";
            (drive_json(drive), &drive.file, &drive.values, note)
        }
        (Ok(drive), _) => (drive_json(drive), &drive.file, &drive.values, ""),
        (_, Ok(controller)) => {
            (controller_json(controller), &controller.file, &controller.values, "")
        }
        (Err(_), Err(_)) => {
            return Err(Failure::not_found(format!(
                "there is no drive and no controller '{name}' in the catalog; 'softroc catalog \
                    list' shows them all"
            )));
        }
    };
    if as_json {
        return output::json(&json);
    }
    let meanings = RotatingSpec::KEYS.iter().chain(SsdSpec::KEYS);
    let meanings = meanings.chain(CacheSpec::KEYS).chain(models::catalog::COMMON_KEYS);
    let meaning = |key: &str| {
        let found = meanings.clone().find(|candidate| candidate.name == key);
        found.map_or_else(String::new, |key| key.meaning.to_owned())
    };
    let rows: Vec<Vec<String>> = values
        .iter()
        .map(|sourced| {
            vec![
                sourced.key.clone(),
                sourced.value.to_string(),
                sourced.source.clone(),
                meaning(&sourced.key),
            ]
        })
        .collect();
    let table = output::table(&["key", "value", "source", "meaning"], &rows, &[false, true]);
    output::print(&format!(
        "{file}{note}\n\n{table}\n\n{}",
        Catalog::text_of(file).unwrap_or_default()
    ))
}
