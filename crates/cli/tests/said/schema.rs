//! A value beside a JSON Schema, as far as ours go.
//!
//! In:    a schema, a value.
//! Out:   the first place where the value is another one.
//! Never: a key that the schema does not have.

use serde_json::Value;

/// Whether a value is as a schema says: the part of JSON Schema that ours uses.
pub(crate) fn fits(schema: &Value, root: &Value, value: &Value, at: &str) {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let definition = &root["$defs"][name.trim_start_matches("#/$defs/")];
        assert!(definition.is_object(), "{name} is not defined");
        return fits(definition, root, value, at);
    }
    if let Some(one_of) = schema.get("enum").and_then(Value::as_array) {
        assert!(one_of.contains(value), "{at}: {value}");
    }
    let names = match &schema["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            panic!("{at}: the schema has no type")
        }
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_number = kind == "integer" && names.contains(&"number");
    assert!(is_number || names.contains(&kind), "{at}: {value} is no {names:?}");
    for (number, element) in value.as_array().into_iter().flatten().enumerate() {
        fits(&schema["items"], root, element, &format!("{at}[{number}]"));
    }
    let Some(object) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(object.contains_key(name.as_str().unwrap()), "{at}: {name} is missing");
    }
    for (name, value) in object {
        let property = &schema["properties"][name];
        assert!(property.is_object(), "{at}.{name} is not in the schema");
        fits(property, root, value, &format!("{at}.{name}"));
    }
}
