declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
define void @kernel(ptr noalias %operands, ptr noalias %numbers) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %operands, i64 0
  %v2 = load ptr, ptr %v1, align 8, !invariant.load !0
  %v3 = getelementptr inbounds i64, ptr %operands, i64 1
  %v4 = load ptr, ptr %v3, align 8, !invariant.load !0
  %v5 = getelementptr inbounds i64, ptr %operands, i64 2
  %v6 = load ptr, ptr %v5, align 8, !invariant.load !0
  %v7 = getelementptr inbounds i64, ptr %operands, i64 3
  %v8 = load ptr, ptr %v7, align 8, !invariant.load !0
  %v9 = getelementptr float, ptr %v6, i64 0
  call void @llvm.prefetch.p0(ptr %v9, i32 1, i32 3, i32 1)
  %v10 = getelementptr inbounds float, ptr %v6, i64 16
  %v11 = getelementptr float, ptr %v10, i64 0
  call void @llvm.prefetch.p0(ptr %v11, i32 1, i32 3, i32 1)
  %v12 = load i32, ptr %v2, align 2
  %v13 = insertelement <16 x i32> poison, i32 %v12, i64 0
  %v14 = shufflevector <16 x i32> %v13, <16 x i32> poison, <16 x i32> zeroinitializer
  %v15 = bitcast <16 x i32> %v14 to <32 x bfloat>
  %v16 = load <32 x bfloat>, ptr %v4, align 4
  %v17 = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> zeroinitializer, <32 x bfloat> %v15, <32 x bfloat> %v16)
  %v18 = getelementptr inbounds i16, ptr %v2, i64 5
  %v19 = load i32, ptr %v18, align 2
  %v20 = insertelement <16 x i32> poison, i32 %v19, i64 0
  %v21 = shufflevector <16 x i32> %v20, <16 x i32> poison, <16 x i32> zeroinitializer
  %v22 = bitcast <16 x i32> %v21 to <32 x bfloat>
  %v23 = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> zeroinitializer, <32 x bfloat> %v22, <32 x bfloat> %v16)
  %v24 = getelementptr inbounds float, ptr %v4, i64 16
  %v25 = getelementptr inbounds i16, ptr %v2, i64 2
  %v26 = load i32, ptr %v25, align 2
  %v27 = insertelement <16 x i32> poison, i32 %v26, i64 0
  %v28 = shufflevector <16 x i32> %v27, <16 x i32> poison, <16 x i32> zeroinitializer
  %v29 = bitcast <16 x i32> %v28 to <32 x bfloat>
  %v30 = load <32 x bfloat>, ptr %v24, align 4
  %v31 = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %v17, <32 x bfloat> %v29, <32 x bfloat> %v30)
  %v32 = getelementptr inbounds i16, ptr %v25, i64 5
  %v33 = load i32, ptr %v32, align 2
  %v34 = insertelement <16 x i32> poison, i32 %v33, i64 0
  %v35 = shufflevector <16 x i32> %v34, <16 x i32> poison, <16 x i32> zeroinitializer
  %v36 = bitcast <16 x i32> %v35 to <32 x bfloat>
  %v37 = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %v23, <32 x bfloat> %v36, <32 x bfloat> %v30)
  %v38 = getelementptr inbounds float, ptr %v24, i64 16
  %v39 = getelementptr inbounds i16, ptr %v25, i64 2
  %v40 = load i16, ptr %v39, align 1
  %v41 = zext i16 %v40 to i32
  %v42 = insertelement <16 x i32> poison, i32 %v41, i64 0
  %v43 = shufflevector <16 x i32> %v42, <16 x i32> poison, <16 x i32> zeroinitializer
  %v44 = bitcast <16 x i32> %v43 to <32 x bfloat>
  %v45 = load <32 x bfloat>, ptr %v38, align 4
  %v46 = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %v31, <32 x bfloat> %v44, <32 x bfloat> %v45)
  %v47 = getelementptr inbounds i16, ptr %v39, i64 5
  %v48 = load i16, ptr %v47, align 1
  %v49 = zext i16 %v48 to i32
  %v50 = insertelement <16 x i32> poison, i32 %v49, i64 0
  %v51 = shufflevector <16 x i32> %v50, <16 x i32> poison, <16 x i32> zeroinitializer
  %v52 = bitcast <16 x i32> %v51 to <32 x bfloat>
  %v53 = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %v37, <32 x bfloat> %v52, <32 x bfloat> %v45)
  %v54 = load <16 x float>, ptr %v8, align 4
  %v55 = fadd <16 x float> %v46, %v54
  %v56 = fcmp ogt <16 x float> zeroinitializer, %v55
  %v57 = select <16 x i1> %v56, <16 x float> zeroinitializer, <16 x float> %v55
  %v58 = fadd <16 x float> %v53, %v54
  %v59 = fcmp ogt <16 x float> zeroinitializer, %v58
  %v60 = select <16 x i1> %v59, <16 x float> zeroinitializer, <16 x float> %v58
  store <16 x float> %v57, ptr %v6, align 4
  %v61 = getelementptr inbounds float, ptr %v6, i64 16
  store <16 x float> %v60, ptr %v61, align 4
  ret void
}
!0 = !{}
