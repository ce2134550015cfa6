"""Small kernels in the assembly of three vendors' formats, written by hand, with what each of them holds."""

AMD = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
	.globl	tile                            ; -- Begin function tile
tile:                                   ; @tile
.Lfunc_begin0:
	.file	1 "/somewhere" "kernel.py"
	.loc	1 10 0 prologue_end             ; kernel.py:10:0
	s_load_dwordx4 s[0:3], s[4:5], 0x0
	buffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen
	s_waitcnt vmcnt(0) lgkmcnt(0)
	ds_write_b128 v5, v[0:3]
	s_barrier
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
	.loc	2 43 13 is_stmt 1               ; standard.py:43:13 @[ kernel.py:20:5 ]
	ds_read_b64 v[6:7], v5
	ds_read2_b64 v[8:11], v5 offset1:4
	global_load_dword v12, v[0:1], off
	buffer_load_dword v4, s[0:3], 0 offen lds
	.loc	1 0 0 is_stmt 0                 ; :0:0
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 a[0:15], v[6:7], v[8:9], a[0:15]
	v_accvgpr_read_b32 v13, a0
	s_add_i32 s6, s6, 1
	s_cbranch_scc1 .LBB0_1
; %bb.2:
	scratch_store_dword off, v13, s32 offset:4 ; 4-byte Folded Spill
	v_add_f32_e32 v13, v13, v12
	global_store_short v[0:1], v13, off
	s_endpgm
.Lfunc_end0:
	.size	tile, .Lfunc_end0-tile
	.amdhsa_kernel tile
	.end_amdhsa_kernel
; Kernel info:
; codeLenInByte = 160
; NumVgprs: 100
; NumAgprs: 16
; TotalNumVgprs: 116
; ScratchSize: 8
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     16
    .args:
      - .address_space:  global
        .size:           8
    .group_segment_fixed_size: 16384
    .max_flat_workgroup_size: 256
    .name:           tile
    .private_segment_fixed_size: 8
    .sgpr_count:     24
    .sgpr_spill_count: 0
    .vgpr_count:     116
    .vgpr_spill_count: 3
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
...
	.end_amdgpu_metadata
"""

SASS = """
	.target	sm_90a
	.section	.text.tile,"ax",@progbits
        .global         tile
tile:
.text.tile:
	//## File "/somewhere/kernel.py", line 10
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   ULDC.64 UR4, c[0x0][0x208] ;
        /*0020*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0030*/                   STS.128 [R8], R4 ;
        /*0040*/                   LDGSTS.E.BYPASS.LTC128B.64 [R9], desc[UR4][R2.64] ;
        /*0050*/                   LDGDEPBAR ;
.L_x_1:
	//## File "/lib/standard.py", line 43 inlined at "/somewhere/kernel.py", line 20
	//## File "/somewhere/kernel.py", line 20
        /*0060*/                   DEPBAR.LE SB0, 0x0 ;
        /*0070*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0080*/                   LDSM.16.M88.4 R12, [R8] ;
        /*0090*/                   LDS.U16 R16, [R8+0x2] ;
        /*00a0*/                   HGMMA.64x32x16.F32 R24, gdesc[UR8].tnspB, R24, gsb0 ;
        /*00b0*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*00c0*/                   UIADD3 UR4, UR4, 0x1, URZ ;
        /*00d0*/               @P0 BRA `(.L_x_1) ;
        /*00e0*/                   STL.64 [R1], R24 ;
        /*00f0*/                   STL [R1+0x8], R26 ;
        /*0100*/                   LDL R26, [R1+0x8] ;
        /*0110*/               @P1 EXIT ;
        /*0120*/                   STG.E desc[UR4][R2.64], R26 ;
        /*0130*/                   EXIT ;
.L_x_2:
        /*0140*/                   BRA `(.L_x_2);
        /*0150*/                   NOP;
.L_x_3:
"""

PTX = """
.version 8.4
.target sm_90a
.address_size 64
.visible .entry tile(
	.param .u64 tile_param_0
)
{
	.reg .b32 	%r<9>;
	.loc	1 10 0
	ld.param.u64 	%rd1, [tile_param_0];
	@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
	cp.async.cg.shared.global [ %r5 + 0 ], [ %rd1 + 0 ], 0x10, %r6;
	cp.async.commit_group ;
$L__BB0_1:                              // =>This Inner Loop
	.loc	2 43 13, function_name $L__info_string0, inlined_at 1 20 5
	cp.async.wait_group 0;
	bar.sync 	0;
	ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %f1 }, { %r1 }, { %r2 }, { %f1 };
	add.s32 	%r7, %r7, 1;
	@%p2 bra 	$L__BB0_1;
	st.global.b16 	[ %rd1 ], %rs1;
	ret;
}
"""
