//! What a sync makes durable.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Change, Content, Disk, Edit, Node, set};

/// What a sync that is under way will make durable.
#[derive(Debug, Clone)]
pub(super) struct Syncing {
    node: Node,
    content: Option<Arc<Vec<u8>>>,
    before: u64,
}

impl Disk {
    pub(super) fn begin_sync(&mut self, thread: u32, descriptor: i32) {
        let Some(opened) = self.open.get(&descriptor) else {
            return;
        };
        let content = match &self.nodes[opened.node.0] {
            Content::File { now, .. } => Some(Arc::clone(now)),
            Content::Folder { .. } => None,
        };
        let syncing = Syncing {
            node: opened.node,
            content,
            before: self.next_change,
        };
        self.syncing.insert(thread, syncing);
    }

    pub(super) fn end_sync(&mut self, thread: u32) -> bool {
        let Some(Syncing {
            node,
            content,
            before,
        }) = self.syncing.remove(&thread)
        else {
            return false;
        };
        if let Some(content) = content {
            if let Content::File { durable, .. } = &mut self.nodes[node.0] {
                *durable = content;
            }
            return true;
        }
        // From the newest on: an older change of the same name is overtaken by it.
        let mut names = BTreeSet::new();
        let mut due = Vec::new();
        for change in self.changes.iter().rev() {
            let mut edits = change.edits.iter();
            let synced = change.number < before && edits.any(|edit| edit.folder == node);
            let named = |edit: &Edit| names.contains(&(edit.folder, edit.name.clone()));
            if synced || change.edits.iter().any(named) {
                let all = change.edits.iter();
                names.extend(all.map(|edit| (edit.folder, edit.name.clone())));
                due.push(change.number);
            }
        }
        let (done, rest) = std::mem::take(&mut self.changes)
            .into_iter()
            .partition(|change| due.contains(&change.number));
        self.changes = rest;
        let done: Vec<Change> = done;
        for edit in done.into_iter().flat_map(|change| change.edits) {
            if let Content::Folder { durable, .. } = &mut self.nodes[edit.folder.0] {
                set(durable, edit.name, edit.to);
            }
        }
        true
    }
}
