//! Downloads, with a Maven of the test's own; and machines where something is missing.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use tempfile::TempDir;

/// A machine with no programs but those that are put into `programs`, and an empty cache.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("programs")).unwrap();
        Self { folder }
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.path().join("programs").join(name)
    }

    fn with_real(self, name: &str) -> Self {
        let path = env::var_os("PATH").unwrap();
        let real = env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|file| file.exists())
            .unwrap();
        symlink(real, self.program(name)).unwrap();
        self
    }

    fn with_maven(self, script: &str) -> Self {
        let script = format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n");
        fs::write(self.program("mvn"), script).unwrap();
        fs::set_permissions(self.program("mvn"), fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn run(&self, command: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_cofferdam-services"))
            .arg(command)
            .env("PATH", self.folder.path().join("programs"))
            .env("XDG_CACHE_HOME", self.folder.path())
            .output()
            .unwrap()
    }

    /// The folders of complete releases, and whatever else is in the cache but locks.
    fn cache(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path().join("cofferdam")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names
            .filter(|name| {
                Path::new(name)
                    .extension()
                    .is_none_or(|extension| extension != "lock")
            })
            .collect();
        names.sort_unstable();
        names
    }
}

fn fails(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_missing_java_or_maven_names_the_package() {
    let error = fails(&Machine::new().run("kafka"));
    assert!(
        error.contains("java is missing") && error.contains("apt-get install default-jre-headless"),
        "{error}"
    );
    let error = fails(&Machine::new().with_real("java").run("kafka"));
    assert!(
        error.contains("mvn is missing") && error.contains("apt-get install maven"),
        "{error}"
    );
}

#[test]
fn callers_at_once_download_once() {
    // It leaves a line for each call, and takes long enough that the others come.
    let maven = r#"for argument; do case $argument in -DoutputDirectory=*) jars=${argument#*=};; esac; done
        echo called >>"$XDG_CACHE_HOME/calls"; sleep 0.3; mkdir "$jars"; : >"$jars/kafka.jar""#;
    let machine = Machine::new().with_maven(maven);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| machine.run("fetch")))
            .collect();
        for caller in callers {
            let output = caller.join().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    });
    let calls = fs::read_to_string(machine.folder.path().join("calls")).unwrap();
    assert_eq!(calls.lines().count(), 2, "one for each release");
    assert_eq!(machine.cache(), ["kafka-3.9.1", "kafka-4.4.0"]);
}

#[test]
fn a_download_that_breaks_off_leaves_nothing_and_says_why() {
    let maven = r#"for argument; do case $argument in -DoutputDirectory=*) mkdir "${argument#*=}";; esac; done
        echo "the network is down"; exit 1"#;
    let machine = Machine::new().with_maven(maven);
    let error = fails(&machine.run("fetch"));
    assert!(
        error.contains("the download of Kafka 3.9.1 failed")
            && error.contains("the network is down"),
        "{error}"
    );
    assert!(machine.cache().is_empty());
}
