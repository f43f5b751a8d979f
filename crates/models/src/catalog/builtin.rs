//! The built-in files, in the order of lists; a test ensures that none is missing.

pub(super) const FILES: &[(&str, &str)] = &[
    (
        "catalog/drives/hgst-huc156045css204.toml",
        include_str!("../../../../catalog/drives/hgst-huc156045css204.toml"),
    ),
    (
        "catalog/drives/hitachi-hus156030vls600.toml",
        include_str!("../../../../catalog/drives/hitachi-hus156030vls600.toml"),
    ),
    (
        "catalog/drives/hitachi-hus156060vls600.toml",
        include_str!("../../../../catalog/drives/hitachi-hus156060vls600.toml"),
    ),
    (
        "catalog/drives/hitachi-husmm8020ass200.toml",
        include_str!("../../../../catalog/drives/hitachi-husmm8020ass200.toml"),
    ),
    (
        "catalog/drives/intel-ssd-510-250.toml",
        include_str!("../../../../catalog/drives/intel-ssd-510-250.toml"),
    ),
    (
        "catalog/drives/intel-ssdsc2ba400g3c.toml",
        include_str!("../../../../catalog/drives/intel-ssdsc2ba400g3c.toml"),
    ),
    (
        "catalog/drives/samsung-mzql23t8hcls.toml",
        include_str!("../../../../catalog/drives/samsung-mzql23t8hcls.toml"),
    ),
    (
        "catalog/drives/seagate-st20000nm007d.toml",
        include_str!("../../../../catalog/drives/seagate-st20000nm007d.toml"),
    ),
    (
        "catalog/drives/seagate-st200fm0002.toml",
        include_str!("../../../../catalog/drives/seagate-st200fm0002.toml"),
    ),
    (
        "catalog/drives/seagate-st3300657ss.toml",
        include_str!("../../../../catalog/drives/seagate-st3300657ss.toml"),
    ),
    (
        "catalog/drives/seagate-st91000640ns.toml",
        include_str!("../../../../catalog/drives/seagate-st91000640ns.toml"),
    ),
    (
        "catalog/drives/seagate-st9146853ss.toml",
        include_str!("../../../../catalog/drives/seagate-st9146853ss.toml"),
    ),
    (
        "catalog/drives/seagate-st973402ss.toml",
        include_str!("../../../../catalog/drives/seagate-st973402ss.toml"),
    ),
    (
        "catalog/drives/seagate-st973451ss.toml",
        include_str!("../../../../catalog/drives/seagate-st973451ss.toml"),
    ),
    (
        "catalog/drives/toshiba-mk1401grrb.toml",
        include_str!("../../../../catalog/drives/toshiba-mk1401grrb.toml"),
    ),
    (
        "catalog/drives/toshiba-px02smf040.toml",
        include_str!("../../../../catalog/drives/toshiba-px02smf040.toml"),
    ),
    (
        "catalog/controllers/adaptec-3805.toml",
        include_str!("../../../../catalog/controllers/adaptec-3805.toml"),
    ),
    ("catalog/controllers/atto-r348.toml", include_str!("../../../../catalog/controllers/atto-r348.toml")),
    ("catalog/controllers/c220.toml", include_str!("../../../../catalog/controllers/c220.toml")),
    ("catalog/controllers/c236.toml", include_str!("../../../../catalog/controllers/c236.toml")),
    ("catalog/controllers/c610.toml", include_str!("../../../../catalog/controllers/c610.toml")),
    (
        "catalog/controllers/cougar-point.toml",
        include_str!("../../../../catalog/controllers/cougar-point.toml"),
    ),
    ("catalog/controllers/direct.toml", include_str!("../../../../catalog/controllers/direct.toml")),
    ("catalog/controllers/hba.toml", include_str!("../../../../catalog/controllers/hba.toml")),
    ("catalog/controllers/icp-5085bl.toml", include_str!("../../../../catalog/controllers/icp-5085bl.toml")),
    (
        "catalog/controllers/intel-rms3cc080.toml",
        include_str!("../../../../catalog/controllers/intel-rms3cc080.toml"),
    ),
    (
        "catalog/controllers/intel-rs3dc080.toml",
        include_str!("../../../../catalog/controllers/intel-rs3dc080.toml"),
    ),
    (
        "catalog/controllers/lsi-3ware-9750-8i.toml",
        include_str!("../../../../catalog/controllers/lsi-3ware-9750-8i.toml"),
    ),
    (
        "catalog/controllers/lsi-9211-8i.toml",
        include_str!("../../../../catalog/controllers/lsi-9211-8i.toml"),
    ),
    (
        "catalog/controllers/lsi-9260-8i.toml",
        include_str!("../../../../catalog/controllers/lsi-9260-8i.toml"),
    ),
    (
        "catalog/controllers/lsi-9260cv-8i.toml",
        include_str!("../../../../catalog/controllers/lsi-9260cv-8i.toml"),
    ),
    ("catalog/controllers/lsi1064.toml", include_str!("../../../../catalog/controllers/lsi1064.toml")),
    ("catalog/controllers/lsi1068.toml", include_str!("../../../../catalog/controllers/lsi1068.toml")),
    ("catalog/controllers/lsi1078.toml", include_str!("../../../../catalog/controllers/lsi1078.toml")),
    ("catalog/controllers/lsi2008.toml", include_str!("../../../../catalog/controllers/lsi2008.toml")),
    ("catalog/controllers/lsi2108.toml", include_str!("../../../../catalog/controllers/lsi2108.toml")),
    (
        "catalog/controllers/lsi2208-1g-2.0.toml",
        include_str!("../../../../catalog/controllers/lsi2208-1g-2.0.toml"),
    ),
    (
        "catalog/controllers/lsi2208-1g-3.0.toml",
        include_str!("../../../../catalog/controllers/lsi2208-1g-3.0.toml"),
    ),
    (
        "catalog/controllers/lsi2208-512-2.0.toml",
        include_str!("../../../../catalog/controllers/lsi2208-512-2.0.toml"),
    ),
    (
        "catalog/controllers/lsi2208-512-3.0.toml",
        include_str!("../../../../catalog/controllers/lsi2208-512-3.0.toml"),
    ),
    (
        "catalog/controllers/lsi2208-lite-2.0.toml",
        include_str!("../../../../catalog/controllers/lsi2208-lite-2.0.toml"),
    ),
    (
        "catalog/controllers/lsi2208-lite-3.0.toml",
        include_str!("../../../../catalog/controllers/lsi2208-lite-3.0.toml"),
    ),
    ("catalog/controllers/patsburg-a.toml", include_str!("../../../../catalog/controllers/patsburg-a.toml")),
    ("catalog/controllers/patsburg-b.toml", include_str!("../../../../catalog/controllers/patsburg-b.toml")),
    (
        "catalog/controllers/praid-cm400i.toml",
        include_str!("../../../../catalog/controllers/praid-cm400i.toml"),
    ),
    (
        "catalog/controllers/praid-cp400i.toml",
        include_str!("../../../../catalog/controllers/praid-cp400i.toml"),
    ),
    (
        "catalog/controllers/praid-em400i.toml",
        include_str!("../../../../catalog/controllers/praid-em400i.toml"),
    ),
    (
        "catalog/controllers/praid-ep400i.toml",
        include_str!("../../../../catalog/controllers/praid-ep400i.toml"),
    ),
    (
        "catalog/controllers/praid-ep420i.toml",
        include_str!("../../../../catalog/controllers/praid-ep420i.toml"),
    ),
    (
        "catalog/controllers/psas-cp400i.toml",
        include_str!("../../../../catalog/controllers/psas-cp400i.toml"),
    ),
    (
        "catalog/controllers/raidcore-rc5252-8.toml",
        include_str!("../../../../catalog/controllers/raidcore-rc5252-8.toml"),
    ),
];
