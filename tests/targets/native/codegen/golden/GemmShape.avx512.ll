declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
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
  %v12 = getelementptr inbounds float, ptr %v2, i64 3
  %v13 = load <16 x float>, ptr %v4, align 4
  %v14 = load float, ptr %v2, align 4
  %v15 = insertelement <16 x float> poison, float %v14, i64 0
  %v16 = shufflevector <16 x float> %v15, <16 x float> poison, <16 x i32> zeroinitializer
  %v17 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v16, <16 x float> %v13, <16 x float> zeroinitializer)
  %v18 = load float, ptr %v12, align 4
  %v19 = insertelement <16 x float> poison, float %v18, i64 0
  %v20 = shufflevector <16 x float> %v19, <16 x float> poison, <16 x i32> zeroinitializer
  %v21 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v20, <16 x float> %v13, <16 x float> zeroinitializer)
  %v22 = getelementptr inbounds float, ptr %v2, i64 1
  %v23 = getelementptr inbounds float, ptr %v2, i64 4
  %v24 = getelementptr inbounds float, ptr %v4, i64 16
  %v25 = load <16 x float>, ptr %v24, align 4
  %v26 = load float, ptr %v22, align 4
  %v27 = insertelement <16 x float> poison, float %v26, i64 0
  %v28 = shufflevector <16 x float> %v27, <16 x float> poison, <16 x i32> zeroinitializer
  %v29 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v28, <16 x float> %v25, <16 x float> %v17)
  %v30 = load float, ptr %v23, align 4
  %v31 = insertelement <16 x float> poison, float %v30, i64 0
  %v32 = shufflevector <16 x float> %v31, <16 x float> poison, <16 x i32> zeroinitializer
  %v33 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v32, <16 x float> %v25, <16 x float> %v21)
  %v34 = getelementptr inbounds float, ptr %v2, i64 2
  %v35 = getelementptr inbounds float, ptr %v2, i64 5
  %v36 = getelementptr inbounds float, ptr %v4, i64 32
  %v37 = load <16 x float>, ptr %v36, align 4
  %v38 = load float, ptr %v34, align 4
  %v39 = insertelement <16 x float> poison, float %v38, i64 0
  %v40 = shufflevector <16 x float> %v39, <16 x float> poison, <16 x i32> zeroinitializer
  %v41 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v40, <16 x float> %v37, <16 x float> %v29)
  %v42 = load float, ptr %v35, align 4
  %v43 = insertelement <16 x float> poison, float %v42, i64 0
  %v44 = shufflevector <16 x float> %v43, <16 x float> poison, <16 x i32> zeroinitializer
  %v45 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v44, <16 x float> %v37, <16 x float> %v33)
  %v46 = load <16 x float>, ptr %v8, align 4
  %v47 = fadd <16 x float> %v41, %v46
  %v48 = fcmp ogt <16 x float> zeroinitializer, %v47
  %v49 = select <16 x i1> %v48, <16 x float> zeroinitializer, <16 x float> %v47
  %v50 = fadd <16 x float> %v45, %v46
  %v51 = fcmp ogt <16 x float> zeroinitializer, %v50
  %v52 = select <16 x i1> %v51, <16 x float> zeroinitializer, <16 x float> %v50
  store <16 x float> %v49, ptr %v6, align 4
  %v53 = getelementptr inbounds float, ptr %v6, i64 16
  store <16 x float> %v52, ptr %v53, align 4
  ret void
}
!0 = !{}
