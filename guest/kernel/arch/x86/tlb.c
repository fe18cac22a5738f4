/* x86: each CPU removes its own translations; the others are asked by
 * interrupt. Each address space counts its changes (tlb_gen), each CPU knows up
 * to which change its TLB is clean, so that requests that arrive late or
 * bunched are answered by one full flush or by none. */
#include <asm/pgtable.h>
#include <asm/tlbops.h>
#include <early.h>
#include <gather.h>
#include <kernel.h>
#include <smp.h>
#include <tlb.h>

/* More single invalidations than this are dearer than the misses after a full
 * flush. */
#define SINGLE_PAGE_CEILING 33UL
#define FLUSH_ALL (~0UL)
#define CR3_KEEP (1UL << 63)

static bool no_threshold;

struct flush_request {
	struct mm *mm;
	u64 start, end; /* end is FLUSH_ALL for everything */
	u64 gen;        /* the change this request makes visible */
	u64 stride_shift;
	bool freed_tables;
};

void tlb_set_no_threshold(bool on)
{
	no_threshold = on;
}

static void mask_set(u64 *mask, u32 cpu)
{
	__atomic_fetch_or(&mask[cpu / 64], 1UL << cpu % 64, __ATOMIC_SEQ_CST);
}

static void mask_clear(u64 *mask, u32 cpu)
{
	__atomic_fetch_and(&mask[cpu / 64], ~(1UL << cpu % 64), __ATOMIC_SEQ_CST);
}

static u64 cr3_of(struct mm *mm, u32 slot)
{
	u64 pcid = has_feature(FEAT_PCID) ? slot + 1 : 0;

	return __pa(mm->root) | pcid;
}

/* A PCID for mm on this CPU: the one it has, or the next in turn. */
static u32 choose_slot(struct cpu *cpu, struct mm *mm, bool *stale)
{
	struct tlb_slot *slots = cpu->arch.slots;

	*stale = true;
	if (!has_feature(FEAT_PCID)) {
		slots[0].mm_id = mm->asid;
		return 0;
	}
	for (u32 i = 0; i < TLB_SLOTS; i++) {
		if (slots[i].mm_id == mm->asid) {
			*stale = slots[i].gen < READ_ONCE(mm->tlb_gen);
			return i;
		}
	}

	u32 slot = cpu->arch.next_slot++ % TLB_SLOTS;

	slots[slot].mm_id = mm->asid;
	return slot;
}

void switch_mm(struct mm *mm)
{
	struct cpu *cpu = this_cpu();
	struct mm *old = cpu->active_mm;
	bool stale;

	cpu->lazy = false;
	if (!mm) {
		write_cr3(early.kernel_root);
		if (old)
			mask_clear(old->cpumask, cpu->number);
		cpu->active_mm = NULL;
		return;
	}
	if (mm != old)
		mask_set(mm->cpumask, cpu->number);

	u64 gen = __atomic_load_n(&mm->tlb_gen, __ATOMIC_SEQ_CST);
	u32 slot = choose_slot(cpu, mm, &stale);

	cpu->arch.slots[slot].gen = gen;
	cpu->arch.loaded_slot = slot;
	cpu->active_mm = mm;
	write_cr3(cr3_of(mm, slot) | (stale || !has_feature(FEAT_PCID) ? 0 : CR3_KEEP));
	if (old && old != mm)
		mask_clear(old->cpumask, cpu->number);
}

void enter_lazy_tlb(void)
{
	if (this_cpu()->active_mm)
		this_cpu()->lazy = true;
}

/* One CPU's part of a flush, interrupts masked. */
static void flush_tlb_func(void *arg)
{
	const struct flush_request *request = arg;
	struct cpu *cpu = this_cpu();
	struct mm *mm = cpu->active_mm;

	if (mm != request->mm)
		return;
	if (cpu->lazy) {
		switch_mm(NULL);
		return;
	}

	struct tlb_slot *slot = &cpu->arch.slots[cpu->arch.loaded_slot];
	u64 gen = __atomic_load_n(&mm->tlb_gen, __ATOMIC_SEQ_CST);

	if (slot->gen == gen)
		return;
	if (request->end != FLUSH_ALL && request->gen == slot->gen + 1 && request->gen == gen) {
		for (u64 addr = request->start; addr < request->end; addr += 1UL << request->stride_shift)
			invlpg(addr);
	} else {
		flush_tlb_local();
	}
	slot->gen = gen;
}

/* Lazy CPUs use no user address. They are asked only when tables are freed:
 * their walkers might still read those. */
static u32 flush_targets(const struct flush_request *request, u64 *targets)
{
	u32 count = 0;

	for (u32 i = 0; i < CPUS_MAX / 64; i++) {
		targets[i] = READ_ONCE(request->mm->cpumask[i]);
		for (u64 left = targets[i]; left; left &= left - 1) {
			u32 number = i * 64 + (u32)__builtin_ctzl(left);

			if (number == this_cpu()->number || (!request->freed_tables && READ_ONCE(cpus[number].lazy)))
				targets[i] &= ~(1UL << number % 64);
			else
				count++;
		}
	}
	return count;
}

static void flush_tlb_mm_range(struct mm *mm, u64 start, u64 end, u64 stride_shift, bool freed_tables)
{
	struct flush_request request = { mm, start, end, 0, stride_shift, freed_tables };
	u64 targets[CPUS_MAX / 64];

	if (end == FLUSH_ALL || (!no_threshold && (end - start) >> stride_shift > SINGLE_PAGE_CEILING)) {
		request.start = 0;
		request.end = FLUSH_ALL;
	}
	request.gen = __atomic_add_fetch(&mm->tlb_gen, 1, __ATOMIC_SEQ_CST);

	u32 count = flush_targets(&request, targets);

	/* The others work while this CPU does its own part. */
	if (count)
		smp_call_begin(targets, count, flush_tlb_func, &request);

	u64 flags = irq_save();

	flush_tlb_func(&request);
	irq_restore(flags);
	if (count)
		smp_call_wait(targets);
}

void flush_tlb_range(struct mm *mm, u64 start, u64 end)
{
	flush_tlb_mm_range(mm, start, end, PAGE_SHIFT, false);
}

/* Leaves of 2 MiB are counted in pages too, as the kernel does. */
void flush_pmd_tlb_range(struct mm *mm, u64 start, u64 end)
{
	flush_tlb_mm_range(mm, start, end, PAGE_SHIFT, false);
}

/* INVLPG drops every table entry of the address space that is cached. */
flush_range_fn arch_flush_leaves(void)
{
	return NULL;
}

void flush_tlb_page(struct mm *mm, u64 addr)
{
	flush_tlb_mm_range(mm, addr, addr + PAGE_SIZE, PAGE_SHIFT, false);
}

void flush_tlb_mm(struct mm *mm)
{
	flush_tlb_mm_range(mm, 0, FLUSH_ALL, PAGE_SHIFT, true);
}

void arch_tlb_flush(struct mmu_gather *tlb)
{
	u64 shift = (u64)__builtin_ctzl(tlb_stride(tlb));

	flush_tlb_mm_range(tlb->mm, tlb->start, tlb->end, shift, tlb->freed_tables);
}

pmd_t pmdp_invalidate(struct mm *mm, u64 addr, pmd_t *pmdp)
{
	pmd_t old = xchg_entry(pmdp, read_entry(pmdp) & ~PTE_PRESENT);

	flush_pmd_tlb_range(mm, addr, addr + PMD_SIZE);
	return old;
}
