define void @kernel(ptr noalias %operands, ptr noalias %numbers) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %operands, i64 0
  %v2 = load ptr, ptr %v1, align 8, !invariant.load !0
  %v3 = getelementptr inbounds i64, ptr %operands, i64 1
  %v4 = load ptr, ptr %v3, align 8, !invariant.load !0
  br label %v5
v5:
  %v6 = phi i64 [ 0, %entry ], [ %v71, %v5 ]
  %v7 = mul nsw i64 %v6, 20
  %v8 = getelementptr inbounds float, ptr %v2, i64 %v7
  %v9 = getelementptr inbounds float, ptr %v4, i64 %v7
  %v10 = load <8 x float>, ptr %v8, align 4
  %v15 = getelementptr inbounds float, ptr %v8, i64 8
  %v21 = getelementptr inbounds float, ptr %v8, i64 16
  %v11 = fcmp uno <8 x float> %v10, %v10
  %v16 = load <8 x float>, ptr %v15, align 4
  %v22 = load <4 x float>, ptr %v21, align 4
  %v12 = fcmp olt <8 x float> splat (float 0xFFF0000000000000), %v10
  %v17 = fcmp uno <8 x float> %v16, %v16
  %v23 = shufflevector <4 x float> %v22, <4 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison>
  %v13 = select <8 x i1> %v12, <8 x float> %v10, <8 x float> splat (float 0xFFF0000000000000)
  %v18 = fcmp olt <8 x float> splat (float 0xFFF0000000000000), %v16
  %v24 = shufflevector <8 x float> splat (float 0x0000000000000000), <8 x float> %v23, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 4, i32 5, i32 6, i32 7>
  %v14 = select <8 x i1> %v11, <8 x float> %v10, <8 x float> %v13
  %v19 = select <8 x i1> %v18, <8 x float> %v16, <8 x float> splat (float 0xFFF0000000000000)
  %v25 = select <8 x i1> <i1 1, i1 1, i1 1, i1 1, i1 0, i1 0, i1 0, i1 0>, <8 x float> %v24, <8 x float> splat (float 0xFFF0000000000000)
  %v20 = select <8 x i1> %v17, <8 x float> %v16, <8 x float> %v19
  %v26 = fcmp uno <8 x float> %v25, %v25
  %v27 = fcmp olt <8 x float> splat (float 0xFFF0000000000000), %v25
  %v28 = select <8 x i1> %v27, <8 x float> %v25, <8 x float> splat (float 0xFFF0000000000000)
  %v29 = select <8 x i1> %v26, <8 x float> %v25, <8 x float> %v28
  %v30 = fcmp uno <8 x float> %v29, %v29
  %v31 = fcmp olt <8 x float> %v14, %v29
  %v32 = select <8 x i1> %v31, <8 x float> %v29, <8 x float> %v14
  %v33 = select <8 x i1> %v30, <8 x float> %v29, <8 x float> %v32
  %v34 = fcmp uno <8 x float> %v20, %v20
  %v35 = fcmp olt <8 x float> %v33, %v20
  %v36 = select <8 x i1> %v35, <8 x float> %v20, <8 x float> %v33
  %v37 = select <8 x i1> %v34, <8 x float> %v20, <8 x float> %v36
  %v38 = shufflevector <8 x float> %v37, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v39 = shufflevector <8 x float> %v37, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v40 = fcmp uno <4 x float> %v39, %v39
  %v41 = fcmp olt <4 x float> %v38, %v39
  %v42 = select <4 x i1> %v41, <4 x float> %v39, <4 x float> %v38
  %v43 = select <4 x i1> %v40, <4 x float> %v39, <4 x float> %v42
  %v44 = shufflevector <4 x float> %v43, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v45 = shufflevector <4 x float> %v43, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v46 = fcmp uno <2 x float> %v45, %v45
  %v47 = fcmp olt <2 x float> %v44, %v45
  %v48 = select <2 x i1> %v47, <2 x float> %v45, <2 x float> %v44
  %v49 = select <2 x i1> %v46, <2 x float> %v45, <2 x float> %v48
  %v50 = extractelement <2 x float> %v49, i32 0
  %v51 = extractelement <2 x float> %v49, i32 1
  %v52 = fcmp uno float %v51, %v51
  %v53 = fcmp olt float %v50, %v51
  %v54 = select i1 %v53, float %v51, float %v50
  %v55 = select i1 %v52, float %v51, float %v54
  %v56 = insertelement <8 x float> poison, float %v55, i32 0
  %v57 = shufflevector <8 x float> %v56, <8 x float> poison, <8 x i32> zeroinitializer
  %v58 = load <8 x float>, ptr %v8, align 4
  %v60 = getelementptr inbounds float, ptr %v8, i64 8
  %v64 = getelementptr inbounds float, ptr %v8, i64 16
  %v59 = fsub <8 x float> %v58, %v57
  %v61 = load <8 x float>, ptr %v60, align 4
  %v65 = load <4 x float>, ptr %v64, align 4
  store <8 x float> %v59, ptr %v9, align 4
  %v62 = fsub <8 x float> %v61, %v57
  %v66 = shufflevector <4 x float> %v65, <4 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison>
  %v63 = getelementptr inbounds float, ptr %v9, i64 8
  %v67 = shufflevector <8 x float> splat (float 0x0000000000000000), <8 x float> %v66, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 4, i32 5, i32 6, i32 7>
  store <8 x float> %v62, ptr %v63, align 4
  %v68 = fsub <8 x float> %v67, %v57
  %v69 = getelementptr inbounds float, ptr %v9, i64 16
  %v70 = shufflevector <8 x float> %v68, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  store <4 x float> %v70, ptr %v69, align 4
  %v71 = add nuw nsw i64 %v6, 1
  %v72 = icmp ult i64 %v71, 2
  br i1 %v72, label %v5, label %v73
v73:
  ret void
}
!0 = !{}
