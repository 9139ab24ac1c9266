define void @kernel(ptr noalias %operands, ptr noalias %numbers) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %operands, i64 0
  %v2 = load ptr, ptr %v1, align 8, !invariant.load !0
  %v3 = getelementptr inbounds i64, ptr %operands, i64 1
  %v4 = load ptr, ptr %v3, align 8, !invariant.load !0
  br label %v5
v5:
  %v6 = phi i64 [ 0, %entry ], [ %v86, %v5 ]
  %v7 = mul nsw i64 %v6, 8
  %v8 = getelementptr inbounds float, ptr %v2, i64 %v7
  %v9 = mul nsw i64 %v6, 8
  %v10 = getelementptr inbounds float, ptr %v4, i64 %v9
  %v11 = load <8 x float>, ptr %v8, align 4
  %v12 = getelementptr inbounds float, ptr %v8, i64 64
  %v13 = load <8 x float>, ptr %v12, align 4
  %v14 = getelementptr inbounds float, ptr %v8, i64 128
  %v15 = load <8 x float>, ptr %v14, align 4
  %v16 = getelementptr inbounds float, ptr %v8, i64 192
  %v17 = load <8 x float>, ptr %v16, align 4
  %v18 = fsub <8 x float> %v11, %v15
  %v19 = fadd <8 x float> %v13, %v15
  %v20 = fsub <8 x float> %v15, %v13
  %v21 = fsub <8 x float> %v13, %v17
  %v22 = getelementptr inbounds float, ptr %v8, i64 16
  %v23 = load <8 x float>, ptr %v22, align 4
  %v24 = getelementptr inbounds float, ptr %v8, i64 80
  %v25 = load <8 x float>, ptr %v24, align 4
  %v26 = getelementptr inbounds float, ptr %v8, i64 144
  %v27 = load <8 x float>, ptr %v26, align 4
  %v28 = getelementptr inbounds float, ptr %v8, i64 208
  %v29 = load <8 x float>, ptr %v28, align 4
  %v30 = fsub <8 x float> %v23, %v27
  %v31 = fadd <8 x float> %v25, %v27
  %v32 = fsub <8 x float> %v27, %v25
  %v33 = fsub <8 x float> %v25, %v29
  %v34 = getelementptr inbounds float, ptr %v8, i64 32
  %v35 = load <8 x float>, ptr %v34, align 4
  %v36 = getelementptr inbounds float, ptr %v8, i64 96
  %v37 = load <8 x float>, ptr %v36, align 4
  %v38 = getelementptr inbounds float, ptr %v8, i64 160
  %v39 = load <8 x float>, ptr %v38, align 4
  %v40 = getelementptr inbounds float, ptr %v8, i64 224
  %v41 = load <8 x float>, ptr %v40, align 4
  %v42 = fsub <8 x float> %v35, %v39
  %v43 = fadd <8 x float> %v37, %v39
  %v44 = fsub <8 x float> %v39, %v37
  %v45 = fsub <8 x float> %v37, %v41
  %v46 = getelementptr inbounds float, ptr %v8, i64 48
  %v47 = load <8 x float>, ptr %v46, align 4
  %v48 = getelementptr inbounds float, ptr %v8, i64 112
  %v49 = load <8 x float>, ptr %v48, align 4
  %v50 = getelementptr inbounds float, ptr %v8, i64 176
  %v51 = load <8 x float>, ptr %v50, align 4
  %v52 = getelementptr inbounds float, ptr %v8, i64 240
  %v53 = load <8 x float>, ptr %v52, align 4
  %v54 = fsub <8 x float> %v47, %v51
  %v55 = fadd <8 x float> %v49, %v51
  %v56 = fsub <8 x float> %v51, %v49
  %v57 = fsub <8 x float> %v49, %v53
  %v58 = fsub <8 x float> %v18, %v42
  %v59 = fadd <8 x float> %v30, %v42
  %v60 = fsub <8 x float> %v42, %v30
  %v61 = fsub <8 x float> %v30, %v54
  store <8 x float> %v58, ptr %v10, align 4
  store <8 x float> %v59, ptr %v10, align 4
  store <8 x float> %v60, ptr %v10, align 4
  store <8 x float> %v61, ptr %v10, align 4
  %v62 = fsub <8 x float> %v19, %v43
  %v63 = fadd <8 x float> %v31, %v43
  %v64 = fsub <8 x float> %v43, %v31
  %v65 = fsub <8 x float> %v31, %v55
  %v66 = getelementptr inbounds float, ptr %v10, i64 16
  store <8 x float> %v62, ptr %v66, align 4
  %v67 = getelementptr inbounds float, ptr %v10, i64 16
  store <8 x float> %v63, ptr %v67, align 4
  %v68 = getelementptr inbounds float, ptr %v10, i64 16
  store <8 x float> %v64, ptr %v68, align 4
  %v69 = getelementptr inbounds float, ptr %v10, i64 16
  store <8 x float> %v65, ptr %v69, align 4
  %v70 = fsub <8 x float> %v20, %v44
  %v71 = fadd <8 x float> %v32, %v44
  %v72 = fsub <8 x float> %v44, %v32
  %v73 = fsub <8 x float> %v32, %v56
  %v74 = getelementptr inbounds float, ptr %v10, i64 32
  store <8 x float> %v70, ptr %v74, align 4
  %v75 = getelementptr inbounds float, ptr %v10, i64 32
  store <8 x float> %v71, ptr %v75, align 4
  %v76 = getelementptr inbounds float, ptr %v10, i64 32
  store <8 x float> %v72, ptr %v76, align 4
  %v77 = getelementptr inbounds float, ptr %v10, i64 32
  store <8 x float> %v73, ptr %v77, align 4
  %v78 = fsub <8 x float> %v21, %v45
  %v79 = fadd <8 x float> %v33, %v45
  %v80 = fsub <8 x float> %v45, %v33
  %v81 = fsub <8 x float> %v33, %v57
  %v82 = getelementptr inbounds float, ptr %v10, i64 48
  store <8 x float> %v78, ptr %v82, align 4
  %v83 = getelementptr inbounds float, ptr %v10, i64 48
  store <8 x float> %v79, ptr %v83, align 4
  %v84 = getelementptr inbounds float, ptr %v10, i64 48
  store <8 x float> %v80, ptr %v84, align 4
  %v85 = getelementptr inbounds float, ptr %v10, i64 48
  store <8 x float> %v81, ptr %v85, align 4
  %v86 = add nuw nsw i64 %v6, 1
  %v87 = icmp ult i64 %v86, 2
  br i1 %v87, label %v5, label %v88
v88:
  ret void
}
!0 = !{}
