//! What is on the disk when the machine starts again.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Content, Disk, Edit, Entries, Node, ROOT, set};

/// Files with their content, and folders (`None`), by path. Names of one file become files of their own.
pub type Tree = BTreeMap<PathBuf, Option<Arc<Vec<u8>>>>;

/// Disks write so much at once.
const BLOCK: usize = 512;

/// What has become of the content of a file that was written and not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// It is as of the last sync: empty, if there was none.
    Lost,
    /// All of it has reached the disk.
    Kept,
    /// Its length has, and every second block.
    Torn,
    /// Its length has, and nothing else.
    Zeroed,
}

impl Disk {
    /// How many changes of names are not durable.
    pub fn changes(&self) -> usize {
        self.changes.len()
    }

    /// What a process sees that starts now: the content of the page cache.
    pub fn now(&self) -> Tree {
        self.after_power_loss(|_| true, |_| Data::Kept)
    }

    /// What is there after a loss of power, of which these of the changes of names have reached the disk, by age, and
    /// this of the data of files, by the order of their creation.
    pub fn after_power_loss(
        &self,
        mut kept: impl FnMut(usize) -> bool,
        mut data: impl FnMut(usize) -> Data,
    ) -> Tree {
        let mut folders: BTreeMap<Node, Entries> = BTreeMap::new();
        for (number, content) in self.nodes.iter().enumerate() {
            if let Content::Folder { durable, .. } = content {
                folders.insert(Node(number), durable.clone());
            }
        }
        for (age, change) in self.changes.iter().enumerate() {
            if !kept(age) {
                continue;
            }
            for Edit { folder, name, to } in &change.edits {
                if let Some(entries) = folders.get_mut(folder) {
                    set(entries, name.clone(), *to);
                }
            }
        }
        let mut contents = |node: Node| match &self.nodes[node.0] {
            Content::Folder { .. } => None,
            Content::File { now, durable } if now == durable => Some(Arc::clone(now)),
            Content::File { now, durable } => Some(match data(node.0) {
                Data::Kept => Arc::clone(now),
                Data::Lost => Arc::clone(durable),
                Data::Torn => Arc::new(blocks(now, durable, |block| block % 2 == 1)),
                Data::Zeroed => Arc::new(blocks(now, durable, |_| false)),
            }),
        };
        let mut tree = Tree::new();
        let mut rest = vec![(PathBuf::new(), ROOT)];
        while let Some((path, folder)) = rest.pop() {
            for (name, node) in &folders[&folder] {
                let path = path.join(name);
                let content = contents(*node);
                if content.is_none() {
                    rest.push((path.clone(), *node));
                }
                tree.insert(path, content);
            }
        }
        tree
    }

    /// Where a process finds a file or folder now.
    pub(super) fn path_of(&self, wanted: Node) -> Option<PathBuf> {
        let mut rest = vec![(PathBuf::new(), ROOT)];
        while let Some((path, node)) = rest.pop() {
            if node == wanted {
                return Some(path);
            }
            if let Content::Folder { now, .. } = &self.nodes[node.0] {
                rest.extend(now.iter().map(|(name, node)| (path.join(name), *node)));
            }
        }
        None
    }
}

/// New length, with the new content of some blocks; the others are old, or zero where nothing was.
fn blocks(now: &[u8], durable: &[u8], new: impl Fn(usize) -> bool) -> Vec<u8> {
    let mut bytes = durable.to_vec();
    bytes.resize(now.len(), 0);
    let pairs = bytes.chunks_mut(BLOCK).zip(now.chunks(BLOCK));
    for (number, (to, from)) in pairs.enumerate() {
        if new(number) {
            to.copy_from_slice(from);
        }
    }
    bytes
}

/// Puts a tree into an empty folder.
///
/// # Errors
/// If the folder can't be written to.
pub fn materialise(tree: &Tree, root: &Path) -> io::Result<()> {
    for (path, content) in tree {
        match content {
            None => fs::create_dir(root.join(path))?,
            Some(bytes) => fs::write(root.join(path), &**bytes)?,
        }
    }
    Ok(())
}
