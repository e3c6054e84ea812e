#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::path::{Path, PathBuf};

use super::{Data, Disk, Tree};
use crate::trace::{Call, Step};

/// A disk, and the calls of one process in `/disk`, thread 1 unless said otherwise.
struct Played(Disk);

impl Played {
    fn new() -> Self {
        let mut disk = Disk::empty();
        disk.begin_process(Path::new("/disk"));
        Self(disk)
    }

    fn call(&mut self, call: Call) -> &mut Self {
        self.by(1, call)
    }

    fn by(&mut self, thread: u32, call: Call) -> &mut Self {
        self.0.apply(&Step { thread, call }).unwrap();
        self
    }

    fn open(&mut self, name: &str, descriptor: i32) -> &mut Self {
        self.call(open(name, descriptor))
    }

    fn write(&mut self, descriptor: i32, bytes: &[u8]) -> &mut Self {
        self.call(Call::Write {
            descriptor,
            at: None,
            bytes: bytes.into(),
        })
    }

    fn sync(&mut self, descriptor: i32) -> &mut Self {
        self.call(Call::SyncBegins(descriptor))
            .call(Call::Sync(descriptor))
    }

    fn file(&mut self, name: &str, descriptor: i32, bytes: &[u8]) -> &mut Self {
        self.open(name, descriptor).write(descriptor, bytes)
    }

    fn sync_root(&mut self) -> &mut Self {
        let folder = Call::Open {
            path: "/disk".into(),
            create: false,
            truncate: false,
            append: false,
            descriptor: 99,
        };
        self.call(folder).sync(99)
    }

    fn lost(&self) -> Vec<(String, String)> {
        texts(&self.0.after_power_loss(|_| false, |_| Data::Lost))
    }

    fn kept(&self) -> Vec<(String, String)> {
        texts(&self.0.now())
    }
}

fn open(name: &str, descriptor: i32) -> Call {
    Call::Open {
        path: path(name),
        create: true,
        truncate: false,
        append: false,
        descriptor,
    }
}

fn path(name: &str) -> PathBuf {
    Path::new("/disk").join(name)
}

fn texts(tree: &Tree) -> Vec<(String, String)> {
    let text = |content: &[u8]| String::from_utf8(content.into()).unwrap();
    tree.iter()
        .map(|(path, content)| {
            let content = content
                .as_ref()
                .map_or("a folder".into(), |bytes| text(bytes));
            (path.display().to_string(), content)
        })
        .collect()
}

fn is(name: &str, content: &str) -> (String, String) {
    (name.into(), content.into())
}

#[test]
fn a_file_is_lost_until_both_it_and_its_folder_are_synced() {
    let mut disk = Played::new();
    disk.file("a", 3, b"text");
    assert_eq!((disk.lost(), disk.kept()), (vec![], vec![is("a", "text")]));
    disk.sync(3);
    assert_eq!(disk.lost(), []);
    disk.sync_root();
    assert_eq!(disk.lost(), [is("a", "text")]);

    let mut disk = Played::new();
    disk.file("a", 3, b"text").sync_root();
    assert_eq!(disk.lost(), [is("a", "")]);
    disk.sync(3).write(3, b" and more");
    assert_eq!(disk.lost(), [is("a", "text")]);
}

#[test]
fn a_folder_takes_what_is_in_it_away() {
    let mut disk = Played::new();
    disk.call(Call::MakeFolder(path("f")))
        .file("f/a", 3, b"text")
        .sync(3);
    disk.open("f", 4).sync(4);
    assert_eq!(disk.lost(), []);
    disk.sync_root();
    assert_eq!(disk.lost(), [is("f", "a folder"), is("f/a", "text")]);
}

#[test]
fn links_and_removals_wait_for_their_folder() {
    let mut disk = Played::new();
    disk.file("a", 3, b"text").sync(3).sync_root();
    disk.call(Call::Link(path("a"), path("b")))
        .call(Call::Unlink(path("a")));
    assert_eq!(
        (disk.lost(), disk.kept()),
        (vec![is("a", "text")], vec![is("b", "text")])
    );
    // Each on its own.
    let both = disk.0.after_power_loss(|age| age == 0, |_| Data::Kept);
    assert_eq!(texts(&both), [is("a", "text"), is("b", "text")]);
    let neither = disk.0.after_power_loss(|age| age == 1, |_| Data::Kept);
    assert_eq!(texts(&neither), []);
    disk.sync_root();
    assert_eq!(disk.lost(), [is("b", "text")]);
}

#[test]
fn a_rename_is_one_change() {
    let mut disk = Played::new();
    disk.call(Call::MakeFolder(path("f")))
        .file("a", 3, b"text")
        .sync(3)
        .sync_root();
    disk.call(Call::Rename(path("a"), path("f/b")));
    assert_eq!(disk.0.changes(), 1);
    assert_eq!(disk.lost(), [is("a", "text"), is("f", "a folder")]);
    // The old folder is enough: else the file could be in neither.
    disk.sync_root();
    assert_eq!(disk.lost(), [is("f", "a folder"), is("f/b", "text")]);
}

#[test]
fn a_sync_covers_what_was_done_before_it_began() {
    let mut disk = Played::new();
    disk.file("a", 3, b"text");
    disk.open("", 9)
        .by(2, Call::SyncBegins(9))
        .by(3, Call::SyncBegins(3));
    disk.write(3, b" and more").file("b", 4, b"");
    disk.by(2, Call::Sync(9)).by(3, Call::Sync(3));
    assert_eq!(disk.lost(), [is("a", "text")]);
}

#[test]
fn an_older_change_of_a_name_never_undoes_a_durable_one() {
    let mut disk = Played::new();
    disk.call(Call::MakeFolder(path("f")))
        .file("a", 3, b"a")
        .sync(3)
        .sync_root();
    disk.file("f/b", 4, b"b")
        .sync(4)
        .call(Call::Rename(path("a"), path("f/b")));
    disk.sync_root();
    assert_eq!(disk.0.changes(), 0);
    assert_eq!(disk.lost(), [is("f", "a folder"), is("f/b", "a")]);
}

#[test]
fn data_may_be_old_torn_or_zero() {
    let (old, new) = ("o".repeat(600), "n".repeat(1500));
    let mut disk = Played::new();
    disk.file("a", 3, old.as_bytes()).sync(3).sync_root();
    disk.call(Call::Write {
        descriptor: 3,
        at: Some(0),
        bytes: new.clone().into(),
    });
    let left = |data| {
        let tree = disk.0.after_power_loss(|_| true, |_| data);
        texts(&tree).pop().unwrap().1
    };
    assert_eq!(left(Data::Lost), old);
    assert_eq!(left(Data::Kept), new);
    let (block, zeros) = ("n".repeat(512), "\0".repeat(900));
    assert_eq!(left(Data::Zeroed), format!("{old}{zeros}"));
    let torn = format!("{}{block}{}", "o".repeat(512), "\0".repeat(1500 - 1024));
    assert_eq!(left(Data::Torn), torn);
}

#[test]
fn a_process_takes_its_descriptors_along() {
    let mut disk = Played::new();
    disk.file("a", 3, b"text");
    disk.0.begin_process(Path::new("/elsewhere"));
    disk.write(3, b" and more").sync(3);
    assert_eq!((disk.lost(), disk.kept()), (vec![], vec![is("a", "text")]));
}

#[test]
fn what_is_not_modelled_is_not_passed_over() {
    let mut disk = Played::new();
    disk.open("a", 3);
    let unmodelled = |descriptor, path: &str| Step {
        thread: 1,
        call: Call::Unmodelled {
            text: String::new(),
            descriptors: vec![descriptor],
            paths: vec![path.into()],
        },
    };
    assert!(disk.0.apply(&unmodelled(3, "/elsewhere")).is_err());
    assert!(disk.0.apply(&unmodelled(4, "/disk/a")).is_err());
    assert!(disk.0.apply(&unmodelled(4, "/elsewhere")).is_ok());
}
