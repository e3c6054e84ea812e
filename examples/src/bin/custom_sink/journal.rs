//! The outside system: a text file to which blocks of lines are appended.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A journal, and the blocks that wait beside it. All methods block.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    folder: PathBuf,
}

/// The mark that a block ends, before the name of the block.
pub(crate) const END: &str = "=== ";

impl Journal {
    /// Opens the journal of a folder, and creates what is missing.
    pub(crate) fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let journal = Self {
            folder: folder.into(),
        };
        fs::create_dir_all(journal.staged(""))?;
        let mut options = File::options();
        options.create(true).append(true).open(journal.file())?;
        File::open(&journal.folder)?.sync_all()?;
        Ok(journal)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn file(&self) -> PathBuf {
        self.folder.join("journal.txt")
    }

    fn staged(&self, name: &str) -> PathBuf {
        self.folder.join("staged").join(name)
    }

    /// Returns the part of the journal that readers count: all up to the last end line.
    pub(crate) fn finished(&self) -> io::Result<String> {
        // A process that died in the middle of a character leaves a part of it, below the last end line.
        let mut text = String::from_utf8_lossy(&fs::read(self.file())?).into_owned();
        let is_end = |line: &&str| line.starts_with(END) && line.ends_with('\n');
        let lines = text.split_inclusive('\n').rev();
        let rest: usize = lines.take_while(|line| !is_end(line)).map(str::len).sum();
        text.truncate(text.len() - rest);
        Ok(text)
    }

    /// The names of all blocks in the journal.
    pub(crate) fn blocks(&self) -> io::Result<Vec<String>> {
        let finished = self.finished()?;
        let ends = finished.lines().filter_map(|line| line.strip_prefix(END));
        Ok(ends.map(str::to_owned).collect())
    }

    /// The names of all staged blocks.
    pub(crate) fn staged_blocks(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.staged(""))?;
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries.map(|entry| entry.map(name)).collect()
    }

    /// Keeps a block beside the journal. It survives the loss of power, with its name.
    pub(crate) fn stage(&self, name: &str, lines: &[String]) -> io::Result<()> {
        let mut file = File::create(self.staged(name))?;
        file.write_all(format!("{}\n{END}{name}\n", lines.join("\n")).as_bytes())?;
        file.sync_all()?;
        File::open(self.staged(""))?.sync_all()
    }

    /// Appends a staged block, once, however often and by however many processes it is called.
    pub(crate) fn append(&self, name: &str) -> io::Result<bool> {
        let mut journal = File::options().append(true).open(self.file())?;
        journal.lock()?;
        let published = self.blocks()?.iter().any(|block| block == name);
        let append = !published && self.staged(name).try_exists()?;
        if append {
            // A process that died half-way has left a part of a block: the whole one takes its place.
            journal.set_len(self.finished()?.len() as u64)?;
            journal.write_all(&fs::read(self.staged(name))?)?;
        }
        // Also what another process has appended: that one may have died before it came to this.
        journal.sync_all()?;
        self.discard(name)?;
        Ok(append)
    }

    /// Removes a staged block, if it is there.
    pub(crate) fn discard(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.staged(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_death_within_an_append_leaves_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(folder.path()).expect("a journal");
        for name in ["a.b.1.0.1", "a.b.1.0.2"] {
            journal.stage(name, &["ä".to_owned()]).expect("staged");
        }
        assert!(journal.append("a.b.1.0.1").expect("appended"));
        let before = journal.finished().expect("a text");
        // The line break of the end line is missing; half a character; an end line that is cut looks like another's.
        for rest in ["ä\n=== a.b.1.0.2".as_bytes(), &[0xc3], b"\n=== a.b.1.0.1"] {
            let torn = [before.as_bytes(), rest].concat();
            fs::write(journal.file(), torn).expect("written");
            journal
                .stage("a.b.1.0.2", &["ä".to_owned()])
                .expect("staged");
            assert!(journal.append("a.b.1.0.2").expect("appended"), "{rest:?}");
            let expected = format!("{before}ä\n=== a.b.1.0.2\n");
            let text = fs::read_to_string(journal.file()).expect("a text");
            assert_eq!(text, expected);
            assert!(!journal.append("a.b.1.0.2").expect("appended before"));
        }
    }
}
