define void @kernel(ptr noalias %operands, ptr noalias %numbers) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %operands, i64 0
  %v2 = load ptr, ptr %v1, align 8, !invariant.load !0
  %v3 = getelementptr inbounds i64, ptr %operands, i64 1
  %v4 = load ptr, ptr %v3, align 8, !invariant.load !0
  %v5 = load <16 x float>, ptr %v2, align 4
  %v6 = getelementptr inbounds float, ptr %v2, i64 64
  %v7 = load <16 x float>, ptr %v6, align 4
  %v8 = getelementptr inbounds float, ptr %v2, i64 128
  %v9 = load <16 x float>, ptr %v8, align 4
  %v10 = getelementptr inbounds float, ptr %v2, i64 192
  %v11 = load <16 x float>, ptr %v10, align 4
  %v12 = fsub <16 x float> %v5, %v9
  %v13 = fadd <16 x float> %v7, %v9
  %v14 = fsub <16 x float> %v9, %v7
  %v15 = fsub <16 x float> %v7, %v11
  %v16 = getelementptr inbounds float, ptr %v2, i64 16
  %v17 = load <16 x float>, ptr %v16, align 4
  %v18 = getelementptr inbounds float, ptr %v2, i64 80
  %v19 = load <16 x float>, ptr %v18, align 4
  %v20 = getelementptr inbounds float, ptr %v2, i64 144
  %v21 = load <16 x float>, ptr %v20, align 4
  %v22 = getelementptr inbounds float, ptr %v2, i64 208
  %v23 = load <16 x float>, ptr %v22, align 4
  %v24 = fsub <16 x float> %v17, %v21
  %v25 = fadd <16 x float> %v19, %v21
  %v26 = fsub <16 x float> %v21, %v19
  %v27 = fsub <16 x float> %v19, %v23
  %v28 = getelementptr inbounds float, ptr %v2, i64 32
  %v29 = load <16 x float>, ptr %v28, align 4
  %v30 = getelementptr inbounds float, ptr %v2, i64 96
  %v31 = load <16 x float>, ptr %v30, align 4
  %v32 = getelementptr inbounds float, ptr %v2, i64 160
  %v33 = load <16 x float>, ptr %v32, align 4
  %v34 = getelementptr inbounds float, ptr %v2, i64 224
  %v35 = load <16 x float>, ptr %v34, align 4
  %v36 = fsub <16 x float> %v29, %v33
  %v37 = fadd <16 x float> %v31, %v33
  %v38 = fsub <16 x float> %v33, %v31
  %v39 = fsub <16 x float> %v31, %v35
  %v40 = getelementptr inbounds float, ptr %v2, i64 48
  %v41 = load <16 x float>, ptr %v40, align 4
  %v42 = getelementptr inbounds float, ptr %v2, i64 112
  %v43 = load <16 x float>, ptr %v42, align 4
  %v44 = getelementptr inbounds float, ptr %v2, i64 176
  %v45 = load <16 x float>, ptr %v44, align 4
  %v46 = getelementptr inbounds float, ptr %v2, i64 240
  %v47 = load <16 x float>, ptr %v46, align 4
  %v48 = fsub <16 x float> %v41, %v45
  %v49 = fadd <16 x float> %v43, %v45
  %v50 = fsub <16 x float> %v45, %v43
  %v51 = fsub <16 x float> %v43, %v47
  %v52 = fsub <16 x float> %v12, %v36
  %v53 = fadd <16 x float> %v24, %v36
  %v54 = fsub <16 x float> %v36, %v24
  %v55 = fsub <16 x float> %v24, %v48
  store <16 x float> %v52, ptr %v4, align 4
  store <16 x float> %v53, ptr %v4, align 4
  store <16 x float> %v54, ptr %v4, align 4
  store <16 x float> %v55, ptr %v4, align 4
  %v56 = fsub <16 x float> %v13, %v37
  %v57 = fadd <16 x float> %v25, %v37
  %v58 = fsub <16 x float> %v37, %v25
  %v59 = fsub <16 x float> %v25, %v49
  %v60 = getelementptr inbounds float, ptr %v4, i64 16
  store <16 x float> %v56, ptr %v60, align 4
  %v61 = getelementptr inbounds float, ptr %v4, i64 16
  store <16 x float> %v57, ptr %v61, align 4
  %v62 = getelementptr inbounds float, ptr %v4, i64 16
  store <16 x float> %v58, ptr %v62, align 4
  %v63 = getelementptr inbounds float, ptr %v4, i64 16
  store <16 x float> %v59, ptr %v63, align 4
  %v64 = fsub <16 x float> %v14, %v38
  %v65 = fadd <16 x float> %v26, %v38
  %v66 = fsub <16 x float> %v38, %v26
  %v67 = fsub <16 x float> %v26, %v50
  %v68 = getelementptr inbounds float, ptr %v4, i64 32
  store <16 x float> %v64, ptr %v68, align 4
  %v69 = getelementptr inbounds float, ptr %v4, i64 32
  store <16 x float> %v65, ptr %v69, align 4
  %v70 = getelementptr inbounds float, ptr %v4, i64 32
  store <16 x float> %v66, ptr %v70, align 4
  %v71 = getelementptr inbounds float, ptr %v4, i64 32
  store <16 x float> %v67, ptr %v71, align 4
  %v72 = fsub <16 x float> %v15, %v39
  %v73 = fadd <16 x float> %v27, %v39
  %v74 = fsub <16 x float> %v39, %v27
  %v75 = fsub <16 x float> %v27, %v51
  %v76 = getelementptr inbounds float, ptr %v4, i64 48
  store <16 x float> %v72, ptr %v76, align 4
  %v77 = getelementptr inbounds float, ptr %v4, i64 48
  store <16 x float> %v73, ptr %v77, align 4
  %v78 = getelementptr inbounds float, ptr %v4, i64 48
  store <16 x float> %v74, ptr %v78, align 4
  %v79 = getelementptr inbounds float, ptr %v4, i64 48
  store <16 x float> %v75, ptr %v79, align 4
  ret void
}
!0 = !{}
