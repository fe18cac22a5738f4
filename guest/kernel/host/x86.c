/* The host build's part of arch/x86/cpu.c. */
#include <mm.h>

void arch_share_kernel(u64 *root)
{
}
