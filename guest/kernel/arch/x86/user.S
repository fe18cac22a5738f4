/* User code for programs that need no more than this. */
	.section .user, "ax"
	.global user_spin
user_spin:
	pause
	jmp	user_spin
