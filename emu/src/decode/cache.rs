//! Decoded blocks, kept by where their code lies in RAM, so that two address spaces with different
//! programs at one address never meet.

use rustc_hash::FxHashMap;

use super::Block;

/// Names a block in a [`BlockCache`]. Valid until the cache is cleared.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct BlockId(u32);

const FRONT: usize = 1 << 12;
const LINE_SHIFT: u32 = 6;

/// Blocks by slot and size.
#[derive(Debug)]
pub struct BlockCache {
    blocks: Vec<Block>,
    by_place: FxHashMap<(u64, u32), BlockId>,
    /// The block last found at each hash of slot and size: `(slot << 16 | size, id)`.
    front: Vec<(u64, BlockId)>,
    /// Which 64-byte lines hold decoded code.
    lines: Vec<u64>,
}

impl BlockCache {
    /// For RAM of `size` bytes.
    #[must_use]
    pub fn new(size: u64) -> Self {
        let words = usize::try_from((size >> LINE_SHIFT).div_ceil(64)).unwrap_or(usize::MAX);
        Self {
            blocks: Vec::new(),
            by_place: FxHashMap::default(),
            front: vec![(u64::MAX, BlockId(0)); FRONT],
            lines: vec![0; words],
        }
    }

    #[inline]
    fn front_index(slot: u64, size: u32) -> usize {
        usize::try_from((slot >> 1 ^ u64::from(size) << 5) & (FRONT as u64 - 1)).unwrap_or(0)
    }

    /// The block of `size` bytes at `slot`, if it is known.
    #[inline]
    pub fn find(&mut self, slot: u64, size: u32) -> Option<BlockId> {
        let key = slot << 16 | u64::from(size & 0xffff);
        let index = Self::front_index(slot, size);
        let (held, id) = self.front[index];
        if held == key {
            return Some(id);
        }
        let id = *self.by_place.get(&(slot, size))?;
        self.front[index] = (key, id);
        Some(id)
    }

    /// Keeps the block of `size` bytes at `slot`. Of a block that continues in another frame,
    /// `size` covers both parts, and `code` names each part's slot and length.
    pub fn insert(&mut self, slot: u64, size: u32, block: Block, code: &[(u64, u64)]) -> BlockId {
        let id = BlockId(u32::try_from(self.blocks.len()).unwrap_or(u32::MAX));
        self.blocks.push(block);
        self.by_place.insert((slot, size), id);
        for (start, len) in code {
            for line in start >> LINE_SHIFT..(start + len).div_ceil(1 << LINE_SHIFT) {
                let (word, bit) = Self::line_bit(line);
                if let Some(word) = self.lines.get_mut(word) {
                    *word |= bit;
                }
            }
        }
        id
    }

    /// A kept block.
    #[inline]
    #[must_use]
    pub fn get(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    fn line_bit(line: u64) -> (usize, u64) {
        (
            usize::try_from(line / 64).unwrap_or(usize::MAX),
            1 << (line % 64),
        )
    }

    /// Whether code of the 64-byte line at `slot` has been decoded.
    #[inline]
    #[must_use]
    pub fn holds_code(&self, slot: u64) -> bool {
        let (word, bit) = Self::line_bit(slot >> LINE_SHIFT);
        self.lines.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Forgets everything: code has changed. Ids that are still held keep their meaning.
    pub fn forget(&mut self) {
        self.by_place.clear();
        self.front.fill((u64::MAX, BlockId(0)));
        self.lines.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_by_place_and_size() {
        let mut cache = BlockCache::new(0x10_0000);
        let first = cache.insert(0x1000, 8, Block::default(), &[(0x1000, 8)]);
        let second = cache.insert(0x1000, 12, Block::default(), &[(0x1000, 8), (0x2000, 4)]);
        assert_eq!(cache.find(0x1000, 8), Some(first));
        assert_eq!(cache.find(0x1000, 12), Some(second));
        assert_eq!(cache.find(0x1004, 8), None);
        assert!(cache.holds_code(0x2038));
        assert!(!cache.holds_code(0x2040));
        cache.forget();
        assert_eq!(cache.find(0x1000, 8), None);
        assert!(!cache.holds_code(0x1000));
    }
}
