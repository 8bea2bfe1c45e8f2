//! The `relayout` binary.

fn main() -> std::process::ExitCode {
    relayout::commands::main()
}
