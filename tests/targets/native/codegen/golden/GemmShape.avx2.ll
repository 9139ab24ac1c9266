declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
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
  %v13 = load <8 x float>, ptr %v4, align 4
  %v14 = getelementptr inbounds float, ptr %v4, i64 8
  %v15 = load <8 x float>, ptr %v14, align 4
  %v16 = load float, ptr %v2, align 4
  %v17 = insertelement <8 x float> poison, float %v16, i64 0
  %v18 = shufflevector <8 x float> %v17, <8 x float> poison, <8 x i32> zeroinitializer
  %v19 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v18, <8 x float> %v13, <8 x float> zeroinitializer)
  %v20 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v18, <8 x float> %v15, <8 x float> zeroinitializer)
  %v21 = load float, ptr %v12, align 4
  %v22 = insertelement <8 x float> poison, float %v21, i64 0
  %v23 = shufflevector <8 x float> %v22, <8 x float> poison, <8 x i32> zeroinitializer
  %v24 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v23, <8 x float> %v13, <8 x float> zeroinitializer)
  %v25 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v23, <8 x float> %v15, <8 x float> zeroinitializer)
  %v26 = getelementptr inbounds float, ptr %v2, i64 1
  %v27 = getelementptr inbounds float, ptr %v2, i64 4
  %v28 = getelementptr inbounds float, ptr %v4, i64 16
  %v29 = load <8 x float>, ptr %v28, align 4
  %v30 = getelementptr inbounds float, ptr %v4, i64 24
  %v31 = load <8 x float>, ptr %v30, align 4
  %v32 = load float, ptr %v26, align 4
  %v33 = insertelement <8 x float> poison, float %v32, i64 0
  %v34 = shufflevector <8 x float> %v33, <8 x float> poison, <8 x i32> zeroinitializer
  %v35 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v34, <8 x float> %v29, <8 x float> %v19)
  %v36 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v34, <8 x float> %v31, <8 x float> %v20)
  %v37 = load float, ptr %v27, align 4
  %v38 = insertelement <8 x float> poison, float %v37, i64 0
  %v39 = shufflevector <8 x float> %v38, <8 x float> poison, <8 x i32> zeroinitializer
  %v40 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v39, <8 x float> %v29, <8 x float> %v24)
  %v41 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v39, <8 x float> %v31, <8 x float> %v25)
  %v42 = getelementptr inbounds float, ptr %v2, i64 2
  %v43 = getelementptr inbounds float, ptr %v2, i64 5
  %v44 = getelementptr inbounds float, ptr %v4, i64 32
  %v45 = load <8 x float>, ptr %v44, align 4
  %v46 = getelementptr inbounds float, ptr %v4, i64 40
  %v47 = load <8 x float>, ptr %v46, align 4
  %v48 = load float, ptr %v42, align 4
  %v49 = insertelement <8 x float> poison, float %v48, i64 0
  %v50 = shufflevector <8 x float> %v49, <8 x float> poison, <8 x i32> zeroinitializer
  %v51 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v50, <8 x float> %v45, <8 x float> %v35)
  %v52 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v50, <8 x float> %v47, <8 x float> %v36)
  %v53 = load float, ptr %v43, align 4
  %v54 = insertelement <8 x float> poison, float %v53, i64 0
  %v55 = shufflevector <8 x float> %v54, <8 x float> poison, <8 x i32> zeroinitializer
  %v56 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v55, <8 x float> %v45, <8 x float> %v40)
  %v57 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v55, <8 x float> %v47, <8 x float> %v41)
  %v58 = getelementptr inbounds float, ptr %v8, i64 8
  %v59 = load <8 x float>, ptr %v8, align 4
  %v60 = load <8 x float>, ptr %v58, align 4
  %v61 = fadd <8 x float> %v51, %v59
  %v62 = fcmp ogt <8 x float> zeroinitializer, %v61
  %v63 = select <8 x i1> %v62, <8 x float> zeroinitializer, <8 x float> %v61
  %v64 = fadd <8 x float> %v52, %v60
  %v65 = fcmp ogt <8 x float> zeroinitializer, %v64
  %v66 = select <8 x i1> %v65, <8 x float> zeroinitializer, <8 x float> %v64
  %v67 = fadd <8 x float> %v56, %v59
  %v68 = fcmp ogt <8 x float> zeroinitializer, %v67
  %v69 = select <8 x i1> %v68, <8 x float> zeroinitializer, <8 x float> %v67
  %v70 = fadd <8 x float> %v57, %v60
  %v71 = fcmp ogt <8 x float> zeroinitializer, %v70
  %v72 = select <8 x i1> %v71, <8 x float> zeroinitializer, <8 x float> %v70
  store <8 x float> %v63, ptr %v6, align 4
  %v73 = getelementptr inbounds float, ptr %v6, i64 8
  store <8 x float> %v66, ptr %v73, align 4
  %v74 = getelementptr inbounds float, ptr %v6, i64 16
  store <8 x float> %v69, ptr %v74, align 4
  %v75 = getelementptr inbounds float, ptr %v6, i64 24
  store <8 x float> %v72, ptr %v75, align 4
  ret void
}
!0 = !{}
