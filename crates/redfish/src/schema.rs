//! The schemas of the resources: DMTF's bundle 2025.4. `$metadata`, the service document and the
//! types of resources come from this table.

/// A schema with its name and version; collections have no version.
pub(crate) struct Schema {
    pub(crate) name: &'static str,
    pub(crate) version: Option<&'static str>,
}

const fn of(name: &'static str, version: &'static str) -> Schema {
    Schema { name, version: Some(version) }
}

const fn collection(name: &'static str) -> Schema {
    Schema { name, version: None }
}

/// The table.
pub(crate) const SCHEMAS: &[Schema] = &[
    of("AccountService", "v1_18_1"),
    of("ActionInfo", "v1_5_0"),
    of("Chassis", "v1_28_0"),
    collection("ChassisCollection"),
    of("ComputerSystem", "v1_27_0"),
    collection("ComputerSystemCollection"),
    of("Drive", "v1_22_0"),
    collection("DriveCollection"),
    of("Event", "v1_13_0"),
    of("EventDestination", "v1_16_0"),
    collection("EventDestinationCollection"),
    of("EventService", "v1_12_0"),
    of("JsonSchemaFile", "v1_1_5"),
    collection("JsonSchemaFileCollection"),
    of("LogEntry", "v1_21_0"),
    collection("LogEntryCollection"),
    of("LogService", "v1_9_0"),
    collection("LogServiceCollection"),
    of("Manager", "v1_24_0"),
    of("ManagerAccount", "v1_14_1"),
    collection("ManagerAccountCollection"),
    collection("ManagerCollection"),
    of("ManagerNetworkProtocol", "v1_12_0"),
    of("Message", "v1_3_0"),
    of("MessageRegistry", "v1_7_0"),
    of("MessageRegistryFile", "v1_1_5"),
    collection("MessageRegistryFileCollection"),
    of("Role", "v1_3_3"),
    collection("RoleCollection"),
    of("ServiceRoot", "v1_20_0"),
    of("Session", "v1_8_0"),
    collection("SessionCollection"),
    of("SessionService", "v1_2_0"),
    of("Storage", "v1_21_0"),
    collection("StorageCollection"),
    of("StorageController", "v1_11_0"),
    collection("StorageControllerCollection"),
    of("Task", "v1_7_4"),
    collection("TaskCollection"),
    of("TaskService", "v1_3_0"),
    of("Volume", "v1_10_2"),
    collection("VolumeCollection"),
];

impl Schema {
    /// The file name of a schema: name and version.
    pub(crate) fn file(&self) -> String {
        match self.version {
            Some(version) => format!("{}.{version}", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// The type of a resource; empty for a name outside the table.
pub(crate) fn type_of(name: &str) -> String {
    let schema = SCHEMAS.iter().find(|schema| schema.name == name);
    schema.map_or_else(String::new, |schema| format!("#{}.{name}", schema.file()))
}

/// The schema of a type, `#Volume.v1_10_2.Volume`: `Volume.v1_10_2`.
pub(crate) fn of_type(odata_type: &str) -> Option<&str> {
    odata_type.strip_prefix('#')?.rsplit_once('.').map(|(schema, _)| schema)
}

/// The address of DMTF's schema files.
pub(crate) const PUBLISHED: &str = "http://redfish.dmtf.org/schemas/v1";

/// The document of `$metadata`.
pub(crate) fn metadata() -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <edmx:Edmx xmlns:edmx=\"http://docs.oasis-open.org/odata/ns/edmx\" Version=\"4.0\">\n",
    );
    for schema in SCHEMAS {
        let (name, file) = (schema.name, schema.file());
        text.push_str(&format!("  <edmx:Reference Uri=\"{PUBLISHED}/{name}_v1.xml\">\n"));
        text.push_str(&format!("    <edmx:Include Namespace=\"{name}\"/>\n"));
        if schema.version.is_some() {
            text.push_str(&format!("    <edmx:Include Namespace=\"{file}\"/>\n"));
        }
        text.push_str("  </edmx:Reference>\n");
    }
    text.push_str(&format!(
        "  <edmx:Reference Uri=\"{PUBLISHED}/RedfishExtensions_v1.xml\">\n    <edmx:Include \
            Namespace=\"RedfishExtensions.v1_0_0\" Alias=\"Redfish\"/>\n  </edmx:Reference>\n"
    ));
    let root = SCHEMAS
        .iter()
        .find(|schema| schema.name == "ServiceRoot")
        .map(Schema::file)
        .unwrap_or_default();
    text.push_str(&format!(
        "  <edmx:DataServices>\n    <Schema xmlns=\"http://docs.oasis-open.org/odata/ns/edm\" \
            Namespace=\"Service\">\n      <EntityContainer Name=\"Service\" \
            Extends=\"{root}.ServiceContainer\"/>\n    </Schema>\n  \
            </edmx:DataServices>\n</edmx:Edmx>\n"
    ));
    text
}
