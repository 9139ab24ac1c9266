define void @kernel(ptr noalias %operands, ptr noalias %numbers) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %operands, i64 0
  %v2 = load ptr, ptr %v1, align 8, !invariant.load !0
  %v3 = getelementptr inbounds i64, ptr %operands, i64 1
  %v4 = load ptr, ptr %v3, align 8, !invariant.load !0
  %v5 = getelementptr inbounds i64, ptr %operands, i64 2
  %v6 = load ptr, ptr %v5, align 8, !invariant.load !0
  %v7 = load <8 x float>, ptr %v4, align 4
  %v8 = getelementptr inbounds float, ptr %v4, i64 8
  %v9 = load <8 x float>, ptr %v8, align 4
  br label %v10
v10:
  %v11 = phi i64 [ 0, %entry ], [ %v26, %v10 ]
  %v12 = mul nsw i64 %v11, 32
  %v13 = mul nsw i64 %v11, 20
  %v14 = getelementptr inbounds float, ptr %v2, i64 %v12
  %v15 = getelementptr inbounds float, ptr %v6, i64 %v13
  %v16 = load <8 x float>, ptr %v14, align 4
  %v20 = getelementptr inbounds float, ptr %v14, i64 8
  %v17 = fadd <8 x float> %v16, %v7
  %v21 = load <8 x float>, ptr %v20, align 4
  %v18 = fcmp olt <8 x float> %v17, splat (float 0x0000000000000000)
  %v22 = fadd <8 x float> %v21, %v9
  %v19 = select <8 x i1> %v18, <8 x float> splat (float 0x0000000000000000), <8 x float> %v17
  %v23 = fcmp olt <8 x float> %v22, splat (float 0x0000000000000000)
  %v24 = select <8 x i1> %v23, <8 x float> splat (float 0x0000000000000000), <8 x float> %v22
  store <8 x float> %v19, ptr %v15, align 4
  %v25 = getelementptr inbounds float, ptr %v15, i64 8
  store <8 x float> %v24, ptr %v25, align 4
  %v26 = add nuw nsw i64 %v11, 1
  %v27 = icmp ult i64 %v26, 2
  br i1 %v27, label %v10, label %v28
v28:
  %v29 = getelementptr inbounds float, ptr %v2, i64 16
  %v30 = getelementptr inbounds float, ptr %v4, i64 16
  %v31 = getelementptr inbounds float, ptr %v6, i64 16
  %v32 = load <4 x float>, ptr %v30, align 4
  %v33 = shufflevector <4 x float> %v32, <4 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison>
  %v34 = shufflevector <8 x float> splat (float 0x0000000000000000), <8 x float> %v33, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 4, i32 5, i32 6, i32 7>
  br label %v35
v35:
  %v36 = phi i64 [ 0, %v28 ], [ %v48, %v35 ]
  %v37 = mul nsw i64 %v36, 32
  %v38 = mul nsw i64 %v36, 20
  %v39 = getelementptr inbounds float, ptr %v29, i64 %v37
  %v40 = getelementptr inbounds float, ptr %v31, i64 %v38
  %v41 = load <4 x float>, ptr %v39, align 4
  %v42 = shufflevector <4 x float> %v41, <4 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison>
  %v43 = shufflevector <8 x float> splat (float 0x0000000000000000), <8 x float> %v42, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 4, i32 5, i32 6, i32 7>
  %v44 = fadd <8 x float> %v43, %v34
  %v45 = fcmp olt <8 x float> %v44, splat (float 0x0000000000000000)
  %v46 = select <8 x i1> %v45, <8 x float> splat (float 0x0000000000000000), <8 x float> %v44
  %v47 = shufflevector <8 x float> %v46, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  store <4 x float> %v47, ptr %v40, align 4
  %v48 = add nuw nsw i64 %v36, 1
  %v49 = icmp ult i64 %v48, 2
  br i1 %v49, label %v35, label %v50
v50:
  ret void
}
!0 = !{}
