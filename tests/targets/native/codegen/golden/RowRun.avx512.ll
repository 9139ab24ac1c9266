define void @kernel(ptr noalias %operands, ptr noalias %numbers) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %operands, i64 0
  %v2 = load ptr, ptr %v1, align 8, !invariant.load !0
  %v3 = getelementptr inbounds i64, ptr %operands, i64 1
  %v4 = load ptr, ptr %v3, align 8, !invariant.load !0
  br label %v5
v5:
  %v6 = phi i64 [ 0, %entry ], [ %v63, %v5 ]
  %v7 = mul nsw i64 %v6, 20
  %v8 = getelementptr inbounds float, ptr %v2, i64 %v7
  %v9 = getelementptr inbounds float, ptr %v4, i64 %v7
  %v10 = load <16 x float>, ptr %v8, align 4
  %v15 = getelementptr inbounds float, ptr %v8, i64 16
  %v11 = fcmp uno <16 x float> %v10, %v10
  %v16 = load <4 x float>, ptr %v15, align 4
  %v12 = fcmp olt <16 x float> splat (float 0xFFF0000000000000), %v10
  %v17 = shufflevector <4 x float> %v16, <4 x float> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v13 = select <16 x i1> %v12, <16 x float> %v10, <16 x float> splat (float 0xFFF0000000000000)
  %v18 = shufflevector <16 x float> splat (float 0x0000000000000000), <16 x float> %v17, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v14 = select <16 x i1> %v11, <16 x float> %v10, <16 x float> %v13
  %v19 = select <16 x i1> <i1 1, i1 1, i1 1, i1 1, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0>, <16 x float> %v18, <16 x float> splat (float 0xFFF0000000000000)
  %v20 = fcmp uno <16 x float> %v19, %v19
  %v21 = fcmp olt <16 x float> splat (float 0xFFF0000000000000), %v19
  %v22 = select <16 x i1> %v21, <16 x float> %v19, <16 x float> splat (float 0xFFF0000000000000)
  %v23 = select <16 x i1> %v20, <16 x float> %v19, <16 x float> %v22
  %v24 = fcmp uno <16 x float> %v23, %v23
  %v25 = fcmp olt <16 x float> %v14, %v23
  %v26 = select <16 x i1> %v25, <16 x float> %v23, <16 x float> %v14
  %v27 = select <16 x i1> %v24, <16 x float> %v23, <16 x float> %v26
  %v28 = shufflevector <16 x float> %v27, <16 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v29 = shufflevector <16 x float> %v27, <16 x float> poison, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v30 = fcmp uno <8 x float> %v29, %v29
  %v31 = fcmp olt <8 x float> %v28, %v29
  %v32 = select <8 x i1> %v31, <8 x float> %v29, <8 x float> %v28
  %v33 = select <8 x i1> %v30, <8 x float> %v29, <8 x float> %v32
  %v34 = shufflevector <8 x float> %v33, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v35 = shufflevector <8 x float> %v33, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v36 = fcmp uno <4 x float> %v35, %v35
  %v37 = fcmp olt <4 x float> %v34, %v35
  %v38 = select <4 x i1> %v37, <4 x float> %v35, <4 x float> %v34
  %v39 = select <4 x i1> %v36, <4 x float> %v35, <4 x float> %v38
  %v40 = shufflevector <4 x float> %v39, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v41 = shufflevector <4 x float> %v39, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v42 = fcmp uno <2 x float> %v41, %v41
  %v43 = fcmp olt <2 x float> %v40, %v41
  %v44 = select <2 x i1> %v43, <2 x float> %v41, <2 x float> %v40
  %v45 = select <2 x i1> %v42, <2 x float> %v41, <2 x float> %v44
  %v46 = extractelement <2 x float> %v45, i32 0
  %v47 = extractelement <2 x float> %v45, i32 1
  %v48 = fcmp uno float %v47, %v47
  %v49 = fcmp olt float %v46, %v47
  %v50 = select i1 %v49, float %v47, float %v46
  %v51 = select i1 %v48, float %v47, float %v50
  %v52 = insertelement <16 x float> poison, float %v51, i32 0
  %v53 = shufflevector <16 x float> %v52, <16 x float> poison, <16 x i32> zeroinitializer
  %v54 = load <16 x float>, ptr %v8, align 4
  %v56 = getelementptr inbounds float, ptr %v8, i64 16
  %v55 = fsub <16 x float> %v54, %v53
  %v57 = load <4 x float>, ptr %v56, align 4
  store <16 x float> %v55, ptr %v9, align 4
  %v58 = shufflevector <4 x float> %v57, <4 x float> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v59 = shufflevector <16 x float> splat (float 0x0000000000000000), <16 x float> %v58, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v60 = fsub <16 x float> %v59, %v53
  %v61 = getelementptr inbounds float, ptr %v9, i64 16
  %v62 = shufflevector <16 x float> %v60, <16 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  store <4 x float> %v62, ptr %v61, align 4
  %v63 = add nuw nsw i64 %v6, 1
  %v64 = icmp ult i64 %v63, 2
  br i1 %v64, label %v5, label %v65
v65:
  ret void
}
!0 = !{}
