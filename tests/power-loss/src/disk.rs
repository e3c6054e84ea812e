//! A disk with a page cache: what is written, and what of it is durable.
//!
//! The content of a file is durable as of its last sync, a name as of the last sync of the folder that it is in, and
//! nothing else is: not the name of a file by the sync of the file, not the name of a folder by its own. Until then each
//! change of a name may have reached the disk or not, whatever became of others; a rename is one change. This is the
//! least that file systems promise.

mod crash;
mod sync;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

pub use self::crash::{Data, Tree, materialise};
use self::sync::Syncing;
use crate::trace::{Call, Step};

/// The folder that everything is in.
const ROOT: Node = Node(0);

/// A file or folder, whatever its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Node(usize);

type Entries = BTreeMap<String, Node>;

#[derive(Debug, Clone)]
enum Content {
    File {
        now: Arc<Vec<u8>>,
        durable: Arc<Vec<u8>>,
    },
    Folder {
        now: Entries,
        durable: Entries,
    },
}

/// A change of names that is not durable yet.
#[derive(Debug, Clone)]
struct Change {
    number: u64,
    edits: Vec<Edit>,
}

/// In a folder a name stands for something else, or for nothing.
#[derive(Debug, Clone)]
struct Edit {
    folder: Node,
    name: String,
    to: Option<Node>,
}

#[derive(Debug, Clone, Copy)]
struct Opened {
    node: Node,
    position: usize,
    append: bool,
}

/// One folder of a disk, and the process that works in it.
#[derive(Debug, Clone)]
pub struct Disk {
    root: PathBuf,
    nodes: Vec<Content>,
    changes: Vec<Change>,
    next_change: u64,
    open: BTreeMap<i32, Opened>,
    syncing: BTreeMap<u32, Syncing>,
}

impl Disk {
    /// An empty folder.
    pub fn empty() -> Self {
        Self {
            root: PathBuf::new(),
            nodes: vec![Content::Folder {
                now: Entries::new(),
                durable: Entries::new(),
            }],
            changes: Vec::new(),
            next_change: 0,
            open: BTreeMap::new(),
            syncing: BTreeMap::new(),
        }
    }

    /// A process begins, which knows the folder as `root`; the one before has died, and what it wrote is still written.
    pub fn begin_process(&mut self, root: &Path) {
        root.clone_into(&mut self.root);
        self.open.clear();
        self.syncing.clear();
    }

    /// Does what a call did. Calls outside the folder do nothing. Tells whether a crash may now leave something else.
    ///
    /// # Errors
    /// If the call can't have come to this on such a disk, or is not modelled.
    pub fn apply(&mut self, step: &Step) -> Result<bool, String> {
        self.do_call(step.thread, &step.call)
            .map_err(|reason| format!("{reason}: {step:?}"))
    }

    /// What a call is about to sync: a path in the root folder, which itself has an empty one.
    pub fn synced_by(&self, call: &Call) -> Option<PathBuf> {
        let Call::SyncBegins(descriptor) = call else {
            return None;
        };
        self.path_of(self.open.get(descriptor)?.node)
    }

    fn do_call(&mut self, thread: u32, call: &Call) -> Result<bool, &'static str> {
        match call {
            Call::Open {
                path,
                create,
                truncate,
                append,
                descriptor,
            } => return self.open(path, *create, *truncate, *append, *descriptor),
            Call::Close(descriptor) => {
                self.open.remove(descriptor);
                return Ok(false);
            }
            Call::Duplicate { from, to } => {
                match self.open.get(from).copied() {
                    Some(opened) => self.open.insert(*to, opened),
                    None => self.open.remove(to),
                };
                return Ok(false);
            }
            Call::Write {
                descriptor,
                at,
                bytes,
            } => return self.write(*descriptor, *at, bytes),
            Call::Truncate { descriptor, length } => {
                let Some(opened) = self.open.get(descriptor) else {
                    return Ok(false);
                };
                let file = self.file(opened.node)?;
                Arc::make_mut(file).resize(*length, 0);
            }
            Call::SyncBegins(descriptor) => {
                self.begin_sync(thread, *descriptor);
                return Ok(false);
            }
            Call::Sync(_) => return Ok(self.end_sync(thread)),
            Call::MakeFolder(path) => {
                let Some((folder, name)) = self.place(path)? else {
                    return Ok(false);
                };
                let node = self.add(Content::Folder {
                    now: Entries::new(),
                    durable: Entries::new(),
                });
                self.change([(folder, name, Some(node))])?;
            }
            Call::RemoveFolder(path) | Call::Unlink(path) => {
                let Some((folder, name)) = self.place(path)? else {
                    return Ok(false);
                };
                self.entry(folder, &name)?.ok_or("nothing to remove")?;
                self.change([(folder, name, None)])?;
            }
            Call::Link(from, to) => match (self.place(from)?, self.place(to)?) {
                (None, None) => return Ok(false),
                (Some((from, name)), Some((to, new))) => {
                    let node = self.entry(from, &name)?.ok_or("nothing to link")?;
                    self.change([(to, new, Some(node))])?;
                }
                _ => return Err("a link into or out of the folder"),
            },
            Call::Rename(from, to) => match (self.place(from)?, self.place(to)?) {
                (None, None) => return Ok(false),
                (Some((from, name)), Some((to, new))) => {
                    let node = self.entry(from, &name)?.ok_or("nothing to rename")?;
                    self.change([(from, name, None), (to, new, Some(node))])?;
                }
                _ => return Err("a rename into or out of the folder"),
            },
            Call::Unmodelled {
                descriptors, paths, ..
            } => {
                let ours = descriptors
                    .iter()
                    .any(|number| self.open.contains_key(number));
                if ours || paths.iter().any(|path| path.starts_with(&self.root)) {
                    return Err("not modelled");
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn open(
        &mut self,
        path: &Path,
        create: bool,
        truncate: bool,
        append: bool,
        descriptor: i32,
    ) -> Result<bool, &'static str> {
        // Whatever had this number is closed, even if that was not seen.
        self.open.remove(&descriptor);
        let existing = if path == self.root {
            Some(ROOT)
        } else {
            let Some((folder, name)) = self.place(path)? else {
                return Ok(false);
            };
            self.entry(folder, &name)?
        };
        let node = match existing {
            Some(node) => node,
            None if create => {
                let (folder, name) = self.place(path)?.ok_or("outside")?;
                let node = self.add(Content::File {
                    now: Arc::default(),
                    durable: Arc::default(),
                });
                self.change([(folder, name, Some(node))])?;
                node
            }
            None => return Err("nothing to open"),
        };
        if truncate {
            *self.file(node)? = Arc::default();
        }
        let opened = Opened {
            node,
            position: 0,
            append,
        };
        self.open.insert(descriptor, opened);
        Ok(truncate || existing.is_none())
    }

    fn write(
        &mut self,
        descriptor: i32,
        at: Option<usize>,
        bytes: &[u8],
    ) -> Result<bool, &'static str> {
        let Some(opened) = self.open.get(&descriptor).copied() else {
            return Ok(false);
        };
        let content = Arc::make_mut(self.file(opened.node)?);
        let start = match at {
            Some(at) => at,
            None if opened.append => content.len(),
            None => opened.position,
        };
        let end = start + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(bytes);
        if at.is_none()
            && let Some(opened) = self.open.get_mut(&descriptor)
        {
            opened.position = end;
        }
        Ok(true)
    }

    fn change<const N: usize>(
        &mut self,
        edits: [(Node, String, Option<Node>); N],
    ) -> Result<(), &'static str> {
        for (folder, name, to) in edits.clone() {
            set(self.folder(folder)?, name, to);
        }
        let edits = edits.map(|(folder, name, to)| Edit { folder, name, to });
        self.changes.push(Change {
            number: self.next_change,
            edits: edits.into(),
        });
        self.next_change += 1;
        Ok(())
    }

    fn add(&mut self, content: Content) -> Node {
        self.nodes.push(content);
        Node(self.nodes.len() - 1)
    }

    /// The folder around a path, and its last name; `None` outside of the root.
    fn place(&mut self, path: &Path) -> Result<Option<(Node, String)>, &'static str> {
        let Ok(inside) = path.strip_prefix(&self.root) else {
            return Ok(None);
        };
        let mut names = Vec::new();
        for component in inside.components() {
            let Component::Normal(name) = component else {
                return Err("not a plain path");
            };
            names.push(name.to_str().ok_or("not text")?.to_owned());
        }
        let last = names.pop().ok_or("the root itself")?;
        let mut folder = ROOT;
        for name in names {
            folder = self.entry(folder, &name)?.ok_or("no folder around it")?;
        }
        Ok(Some((folder, last)))
    }

    fn entry(&mut self, folder: Node, name: &str) -> Result<Option<Node>, &'static str> {
        Ok(self.folder(folder)?.get(name).copied())
    }

    fn folder(&mut self, node: Node) -> Result<&mut Entries, &'static str> {
        match &mut self.nodes[node.0] {
            Content::Folder { now, .. } => Ok(now),
            Content::File { .. } => Err("not a folder"),
        }
    }

    fn file(&mut self, node: Node) -> Result<&mut Arc<Vec<u8>>, &'static str> {
        match &mut self.nodes[node.0] {
            Content::File { now, .. } => Ok(now),
            Content::Folder { .. } => Err("not a file"),
        }
    }
}

fn set(entries: &mut Entries, name: String, to: Option<Node>) {
    match to {
        Some(node) => entries.insert(name, node),
        None => entries.remove(&name),
    };
}
