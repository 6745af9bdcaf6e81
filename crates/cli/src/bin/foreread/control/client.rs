//! The asking end of a control socket.

use foreread_serve::client::Client;

use foreread_cli::output::Failure;

/// Sends one request to a server.
pub(crate) fn ask(socket: &str, what: &str) -> Result<String, Failure> {
    let mut client =
        Client::connect(socket).map_err(|error| Failure::WrongUse(error.to_string()))?;
    client.control(what).map_err(|error| Failure::Check(error.to_string()))
}

/// Returns the parsed answer, or an error if it is malformed.
pub(crate) fn understood<T: serde::de::DeserializeOwned>(
    socket: &str,
    text: &str,
) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| {
        let line = format!("{socket}: an answer that is not understood ({error}); is it foreread?");
        Failure::WrongUse(line)
    })
}
