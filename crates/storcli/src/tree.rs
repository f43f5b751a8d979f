//! A reply as a tree of values, the source of both forms.

/// A value under a name.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// Text.
    Text(String),
    /// A number.
    Number(i64),
    /// A list of rows.
    Table(Table),
    /// Values by name, in order.
    Pairs(Pairs),
}

/// Values by name, in order.
pub(crate) type Pairs = Vec<(String, Value)>;

/// A list of rows.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Table {
    pub(crate) columns: &'static [Column],
    pub(crate) rows: Vec<Vec<Value>>,
    /// The meaning of its abbreviations.
    pub(crate) legend: &'static str,
}

/// A column of a table.
#[derive(PartialEq, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) align: Align,
}

/// The alignment of a column's cells in text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Align {
    /// Numbers right, words left.
    ByKind,
    Left,
    Right,
}

/// A column with default alignment.
pub(crate) const fn column(name: &'static str) -> Column {
    Column { name, align: Align::ByKind }
}

/// A left-aligned column.
pub(crate) const fn left(name: &'static str) -> Column {
    Column { name, align: Align::Left }
}

/// A right-aligned column.
pub(crate) const fn right(name: &'static str) -> Column {
    Column { name, align: Align::Right }
}

/// Text as a value.
pub(crate) fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

/// A number as a value.
pub(crate) fn number(number: impl TryInto<i64>) -> Value {
    Value::Number(number.try_into().unwrap_or(i64::MAX))
}

/// A number, or a dash.
pub(crate) fn number_or_dash(value: Option<u32>) -> Value {
    value.map_or_else(|| text("-"), number)
}

/// `Yes` or `No`.
pub(crate) fn yes_no(yes: bool) -> Value {
    text(if yes { "Yes" } else { "No" })
}

/// `Y` or `N`.
pub(crate) fn y_n(yes: bool) -> Value {
    text(if yes { "Y" } else { "N" })
}

impl Table {
    /// A table without a legend.
    pub(crate) fn new(columns: &'static [Column], rows: Vec<Vec<Value>>) -> Table {
        Table { columns, rows, legend: "" }
    }
}

/// Names and values.
pub(crate) fn pairs<const N: usize>(pairs: [(&str, Value); N]) -> Pairs {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
